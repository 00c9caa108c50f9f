"""The control listener: ``GET`` and ``PATCH /v1/runtime_config`` under a key of its own.

The meaning is in ``policies.runtime_config`` and ``engine.settings_book``; this file only carries
it over HTTP. Errors are RFC 9457 problem documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from engine.http.bodies import BearerKey, read_bounded
from engine.live_settings import LiveSettings
from policies.runtime_config import CONTROL_PATH, Patch, RuntimeConfig
from signals.errors import Rejected, Unavailable

MAX_PATCH_BYTES = 262_144
"""All knobs with laws of 16 steps need a tenth of it."""

PROBLEM = "application/problem+json"

(_PATCH, _CONFIG), _SCHEMAS = msgspec.json.schema_components(
    [Patch, RuntimeConfig], ref_template="#/components/schemas/{name}"
)
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _PATCH}}}}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": _CONFIG}}}
}


class _ControlApi(FastAPI):
    """Describes the bodies in its OpenAPI document by the contract's own types."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(_SCHEMAS)
        return document


def control_app(
    live: LiveSettings, wake: Callable[[], None], *, key: str, apply_timeout_s: float
) -> FastAPI:
    """The control API of one engine. ``wake`` makes an idle engine reach its next boundary."""
    bearer = BearerKey(key)

    async def authenticate(request: Request) -> None:
        bearer.check(request)

    app = _ControlApi(
        title="Trimtab engine control",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authenticate)],
    )
    _answer_errors_as_problems(app)

    @app.get(CONTROL_PATH, response_class=Response, responses=_ANSWER)
    async def read_settings(after: Annotated[int, Query(ge=-1)] = -1) -> Response:
        """What is in force; of the change log, the entries numbered above ``after``."""
        return _json(live.read(after_seq=after))

    @app.patch(CONTROL_PATH, response_class=Response, openapi_extra=_BODY, responses=_ANSWER)
    async def change_settings(request: Request) -> Response:
        """Apply a change at the next step boundary; the answer shows the values after it."""
        patch = _decode(await read_bounded(request, MAX_PATCH_BYTES))
        answer = live.submit(patch)
        wake()
        wrapped = asyncio.wrap_future(answer)
        await asyncio.wait({wrapped}, timeout=apply_timeout_s)
        if not wrapped.done() and answer.cancel():
            raise Unavailable(f"no step boundary within {apply_timeout_s:g} s; not applied")
        return _json(await wrapped)

    return app


def _decode(body: bytes) -> Patch:
    try:
        return msgspec.json.decode(body, type=Patch)
    except msgspec.ValidationError as wrong:
        what, _, where = str(wrong).partition(" - at `$.")
        raise Rejected(what, field=where.rstrip("`") or "body") from None
    except msgspec.DecodeError as broken:
        raise Rejected(f"not JSON: {broken}", field="body") from None


def _json(config: RuntimeConfig) -> Response:
    return Response(msgspec.json.encode(config), media_type="application/json")


def _answer_errors_as_problems(app: FastAPI) -> None:
    @app.exception_handler(Rejected)
    async def rejected(request: Request, refused: Rejected) -> Response:
        del request
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        return _problem(refused.problem(), refused.status, headers)

    @app.exception_handler(Unavailable)
    async def unavailable(request: Request, away: Unavailable) -> Response:
        del request
        problem = {"type": "about:blank", "title": "Unavailable", "status": 503}
        headers = {"Retry-After": str(max(1, round(away.retry_after_s)))}
        return _problem(problem | {"detail": away.detail}, 503, headers)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, wrong: RequestValidationError) -> Response:
        del request
        first = wrong.errors()[0]
        refused = Rejected(first["msg"], field=str(first["loc"][-1]), value=first["input"])
        return _problem(refused.problem(), refused.status)

    @app.exception_handler(HTTPException)
    async def refused_by_framework(request: Request, refused: HTTPException) -> Response:
        del request
        problem = {"type": "about:blank", "title": refused.detail, "status": refused.status_code}
        return _problem(problem, refused.status_code, refused.headers)


def _problem(problem: dict[str, Any], status: int, headers: Any = None) -> Response:
    body = msgspec.json.encode(problem)
    return Response(body, status_code=status, headers=headers, media_type=PROBLEM)
