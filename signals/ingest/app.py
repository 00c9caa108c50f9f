"""``POST /v1/signals``: events in, acknowledged when they are on disk.

202  ``{accepted, duplicates, refused: [{index, id, reason, field, allowed}]}``
4xx  nothing was taken: 401 no valid key, 403 the key allows none of it, 413, 415, 422
503  not durable now, with ``Retry-After``; post the same again
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from signals.bus.port import Bus, Message
from signals.codec import CONTENT_TYPES, TooLarge
from signals.definitions import Definitions
from signals.errors import Denied, Unavailable
from signals.ingest.counters import IngestCounters
from signals.ingest.keys import KeyReader, Producer
from signals.ingest.problems import answer_with_problems, problem
from signals.ingest.recent import RecentIds
from signals.ingest.sorting import Refused, Sorted, sort_out
from signals.rules import Rules
from signals.settings import IngestSettings

IN_THREAD_BYTES = 65_536
"""A body above this is judged beside the event loop, so that small posts are not held up."""

_BODY_DOC: dict[str, Any] = {
    "requestBody": {"required": True, "content": {name: {} for name in CONTENT_TYPES}}
}


def make_app(
    *,
    bus: Bus,
    keys: KeyReader,
    definitions: Definitions,
    targets: Container[str],
    settings: IngestSettings,
    clock: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> FastAPI:
    """The signals API. ``clock`` gives µs since the epoch.

    ``definitions`` and ``targets`` are asked at every post, so they may change while it runs.
    """
    app = FastAPI(title="Trimtab signals", openapi_url="/openapi.json", docs_url=None)
    answer_with_problems(app)
    counters = IngestCounters()
    recent = RecentIds(settings.recent_ids)

    @app.post("/v1/signals", status_code=202, openapi_extra=_BODY_DOC)
    async def post_signals(request: Request) -> Response:
        """Take feedback events."""
        producer = _authenticate(request, keys)
        body = await _read(request, settings.max_body_bytes)
        rules = Rules(
            producer=producer,
            definitions=definitions.current(),
            targets=targets,
            settings=settings,
            now_us=clock(),
        )
        sorted_out = await _sort(request, body, rules)
        for field, count in Counter(each.field or "" for each in sorted_out.refused).items():
            counters.refused.labels(field).inc(count)
        if not sorted_out.taken:
            return _nothing_taken(sorted_out)
        await _commit(bus, sorted_out, rules, counters)
        return _accepted(sorted_out, recent, counters)

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


def _authenticate(request: Request, keys: KeyReader) -> Producer:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    producer = keys.lookup(token.strip()) if scheme.lower() == "bearer" else None
    if producer is None:
        raise Denied("a valid bearer key is required", authenticated=False)
    return producer


async def _read(request: Request, limit: int) -> bytes:
    """The body, given up as soon as it is longer than ``limit`` bytes."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"the body has {declared} bytes", value=int(declared), allowed=limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body has more than {limit} bytes", allowed=limit)
    return bytes(body)


async def _sort(request: Request, body: bytes, rules: Rules) -> Sorted:
    content_type = request.headers.get("content-type", "")
    encoding = request.headers.get("content-encoding", "")
    if len(body) <= IN_THREAD_BYTES:
        return sort_out(body, content_type=content_type, encoding=encoding, rules=rules)
    return await asyncio.to_thread(
        sort_out, body, content_type=content_type, encoding=encoding, rules=rules
    )


async def _commit(bus: Bus, sorted_out: Sorted, rules: Rules, counters: IngestCounters) -> None:
    """Return when the events are durable. Raises ``Unavailable``."""
    messages = [
        Message(
            key=taken.signal.target,
            body=taken.body,
            producer=taken.signal.producer,
            accepted_us=rules.now_us,
        )
        for taken in sorted_out.taken
    ]
    try:
        with counters.commit_s.time():
            await asyncio.wrap_future(bus.append(messages))
    except Unavailable:
        counters.unavailable.inc()
        raise


def _accepted(sorted_out: Sorted, recent: RecentIds, counters: IngestCounters) -> Response:
    signals = [taken.signal for taken in sorted_out.taken]
    duplicates = sum(recent.seen(signal.producer, signal.id) for signal in signals)
    for kind, count in Counter(signal.kind for signal in signals).items():
        counters.accepted.labels(kind).inc(count)
    counters.duplicates.inc(duplicates)
    answer = {
        "accepted": len(signals),
        "duplicates": duplicates,
        "refused": _documents(sorted_out.refused),
    }
    return Response(msgspec.json.encode(answer), 202, media_type="application/json")


def _nothing_taken(sorted_out: Sorted) -> Response:
    only_denied = sorted_out.denied == len(sorted_out.refused)
    status = 403 if only_denied else 422
    members: dict[str, Any] = {
        "type": "about:blank",
        "title": "Denied" if only_denied else "Rejected",
        "status": status,
        "detail": "every event was refused",
        "accepted": 0,
        "duplicates": 0,
        "refused": _documents(sorted_out.refused),
    }
    return problem(status, members)


def _documents(refused: list[Refused]) -> Any:
    return msgspec.to_builtins(refused)
