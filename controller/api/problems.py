"""Every error as an RFC 9457 problem document, also those the framework raises."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from signals.errors import Fenced, Rejected, Unavailable

MEDIA_TYPE = "application/problem+json"
LIMITS = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern", "expected")

log = logging.getLogger(__name__)


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's ``responses`` for the problems that a route can answer with."""
    problem = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {code: {"description": HTTPStatus(code).phrase, **problem} for code in codes}


PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "description": "RFC 9457, with the refused field, its value and what was allowed",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "value": {},
        "allowed": {},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


def install(app: FastAPI) -> None:
    """Answer every kind of error with a problem document."""
    app.add_exception_handler(Rejected, _rejected)
    app.add_exception_handler(Unavailable, _unavailable)
    app.add_exception_handler(Fenced, _fenced)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _broken)


def _rejected(_: Request, error: Exception) -> Response:
    assert isinstance(error, Rejected)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return _answer(error.problem(), headers)


def _unavailable(_: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)
    headers = {"Retry-After": str(max(1, round(error.retry_after_s)))}
    return _answer(_problem(503, error.detail), headers)


def _fenced(_: Request, error: Exception) -> Response:
    return _answer(_problem(503, f"{error}"), {"Retry-After": "1"})


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [_refusal(details) for details in error.errors()]
    detail = "; ".join(f"{one['field']}: {one['detail']}" for one in found)
    first = {name: found[0][name] for name in ("field", "value", "allowed") if name in found[0]}
    return _answer(_problem(422, detail) | first | {"errors": found})


def _refusal(details: dict[str, Any]) -> dict[str, Any]:
    context = details.get("ctx", {})
    allowed = ", ".join(f"{name} {context[name]}" for name in LIMITS if name in context)
    refused = {"field": _field(details["loc"]), "detail": details["msg"]}
    if details["type"] != "missing" and _is_plain(details.get("input")):
        refused["value"] = details["input"]
    return refused | ({"allowed": allowed} if allowed else {})


def _field(loc: Sequence[int | str]) -> str:
    """``setting.value`` for ``("body", "setting", "value")``."""
    inside = loc[1:] if len(loc) > 1 and loc[0] in ("body", "query", "path") else loc
    return ".".join(str(part) for part in inside)


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool, list, dict)) or value is None


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return _answer(_problem(422, "the body can't be read as JSON") | {"field": "body"})
    return _answer(_problem(error.status_code, str(error.detail)), dict(error.headers or {}))


def _broken(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(_problem(500, f"{type(error).__name__} in the controller; its log has more"))


def problem_answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """A problem document as a response, for what answers before the framework does."""
    return _answer(_problem(status, detail), headers)


def _problem(status: int, detail: str) -> dict[str, object]:
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail}


def _answer(problem: dict[str, object], headers: dict[str, str] | None = None) -> Response:
    status = problem["status"]
    assert isinstance(status, int)
    body = msgspec.json.encode(problem, enc_hook=str)
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)
