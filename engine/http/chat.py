"""The chat API: what the ``openai`` SDK and a Prometheus scraper need. Errors in OpenAI's shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Struct
from starlette.exceptions import HTTPException

from engine.generation import Class, QueueFull
from engine.http.answers import error_body, refusal_body
from engine.http.asks import ChatAsk, parse_ask
from engine.http.bodies import BearerKey, read_bounded
from engine.http.conversations import Conversations
from engine.http.marks import read_marks
from engine.http.streaming import AnswerResponse
from signals.errors import Rejected, Unavailable
from signals.pseudonyms import Pseudonyms

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ChatApi(Struct, frozen=True, kw_only=True):
    """What the chat API needs. ``key`` None: open. ``failed``: why the engine stopped, if so.

    ``pseudonyms`` take the place of clients' session and external ids; None: they stay.
    """

    model: str
    conversations: Conversations
    classes: Mapping[str, Class]
    key: str | None
    max_request_bytes: int
    retry_after_s: int
    metrics: Callable[[], bytes]
    failed: Callable[[], BaseException | None]
    pseudonyms: Pseudonyms | None = None


def chat_app(api: ChatApi) -> FastAPI:
    """The chat API as an ASGI application."""
    app = FastAPI(title="Trimtab engine", docs_url=None, redoc_url=None)
    bearer = None if api.key is None else BearerKey(api.key)
    began = int(time.time())

    async def authenticate(request: Request) -> None:
        if bearer is not None:
            bearer.check(request)

    keyed = [Depends(authenticate)]
    _answer_errors(app, api.retry_after_s)

    @app.post("/v1/chat/completions", dependencies=keyed, openapi_extra=_BODY)
    async def complete(request: Request) -> Response:
        """Answer a conversation, whole or as server-sent events."""
        ask = parse_ask(await read_bounded(request, api.max_request_bytes))
        marks = read_marks(request.headers, api.classes, api.pseudonyms)
        talk = await api.conversations.open(ask, marks)
        return AnswerResponse(
            talk,
            api.conversations.cancel,
            stream=ask.stream,
            include_usage=ask.include_usage,
        )

    @app.get("/v1/models", dependencies=keyed)
    async def models() -> dict[str, object]:
        """The one model that is served."""
        model = {"id": api.model, "object": "model", "created": began, "owned_by": "trimtab"}
        return {"object": "list", "data": [model]}

    @app.get("/healthz")
    async def healthz() -> Response:
        """200 while the engine makes steps, 503 with the reason when it has stopped."""
        failure = api.failed()
        if failure is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "failed", "reason": repr(failure)}, status_code=503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Prometheus text."""
        return Response(api.metrics(), media_type=METRICS_TYPE)

    return app


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": ChatAsk.model_json_schema()}},
    }
}


def _answer_errors(app: FastAPI, retry_after_s: int) -> None:
    @app.exception_handler(Rejected)
    async def rejected(request: Request, refused: Rejected) -> Response:
        del request
        return JSONResponse(refusal_body(refused), status_code=refused.status)

    @app.exception_handler(QueueFull)
    async def full(request: Request, full: QueueFull) -> Response:
        del request
        body = error_body(full.detail, kind="rate_limit_error", code="queue_full")
        return JSONResponse(body, status_code=429, headers={"Retry-After": str(retry_after_s)})

    @app.exception_handler(Unavailable)
    async def unavailable(request: Request, away: Unavailable) -> Response:
        del request
        body = error_body(away.detail, kind="server_error", code="unavailable")
        return JSONResponse(body, status_code=503, headers={"Retry-After": str(retry_after_s)})

    @app.exception_handler(HTTPException)
    async def refused_by_framework(request: Request, refused: HTTPException) -> Response:
        body = error_body(
            f"{request.url.path}: {refused.detail}", kind="not_found_error", code=None
        )
        return JSONResponse(body, status_code=refused.status_code, headers=refused.headers)
