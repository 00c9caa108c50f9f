"""``POST /v1/signals``: events in, acknowledged when they are on disk.

202  ``{accepted, duplicates, refused: [{index, id, reason, field, allowed}]}``
4xx  nothing was taken: 401 no valid key, 403 the key allows none of it, 408 the body did not come,
     413, 415, 422, 429 more than the key's rate, with ``Retry-After``
503  not durable now, or too much in hand, with ``Retry-After``; post the same again

Memory is bounded whatever is offered, by ``signals.ingest.inflight.memory_bound_bytes``: posts in
hand hold ``max_inflight_bytes`` of bodies and refusals at most, from the first byte that is read
until the answer is sent; one thread judges, one post at a time; connections beyond twice
``max_connections`` are closed. What goes beyond is answered 503, and nothing of it is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final

from fastapi import FastAPI, Response
from starlette.types import Receive, Scope, Send

from signals.bus.port import Bus, BusStatus
from signals.codec import CONTENT_TYPES
from signals.definitions import Definitions
from signals.errors import Broken, Unavailable
from signals.ingest.counters import IngestCounters
from signals.ingest.keys import KeyReader
from signals.ingest.posting import Posting
from signals.ingest.problems import answer_with_problems
from signals.pseudonyms import Pseudonyms
from signals.settings import IngestSettings

PATH: Final = "/v1/signals"
_BODY_DOC: dict[str, Any] = {
    "requestBody": {"required": True, "content": {name: {} for name in CONTENT_TYPES}}
}


class SignalsApp(FastAPI):
    """FastAPI with its one hot route in front, for its routing costs more than the route."""

    def __init__(self, posting: Posting) -> None:
        super().__init__(title="Trimtab signals", openapi_url="/openapi.json", docs_url=None)
        self._posting = posting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST":
            await self._posting(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def make_app(
    *,
    bus: Bus,
    keys: KeyReader,
    definitions: Definitions,
    targets: Collection[str],
    settings: IngestSettings,
    clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    status: Callable[[], BusStatus] | None = None,
    pseudonyms: Pseudonyms | None = None,
) -> FastAPI:
    """The signals API. ``clock`` gives µs since the epoch, ``status`` how far the log is, for the
    metrics; ``pseudonyms`` take the place of session and external ids before anything is kept.

    ``definitions`` and ``targets`` are asked at every post, so they may change while it runs.
    """
    counters = IngestCounters()
    if status is not None:
        counters.watch_bus(status)
    app = SignalsApp(
        Posting(
            bus=bus,
            keys=keys,
            definitions=definitions,
            targets=targets,
            settings=settings,
            counters=counters,
            clock=clock,
            pseudonyms=pseudonyms,
        )
    )
    answer_with_problems(app)

    @app.post(PATH, status_code=202, openapi_extra=_BODY_DOC)
    async def post_signals() -> Response:
        """Take feedback events."""
        raise Broken("posts are taken before they are routed")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        """The bus would take an event."""
        if not bus.healthy():
            raise Unavailable("the bus does not take events")
        return {"status": "ready"}

    @app.get("/metrics")
    async def prometheus() -> Response:
        """Counters in the Prometheus text format."""
        return Response(counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app
