"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from signals.errors import Denied, Rejected, Unavailable

PROBLEM = "application/problem+json"


def answer_with_problems(app: FastAPI) -> None:
    """Let ``app`` answer our errors, and the framework's own, as problem documents."""
    app.add_exception_handler(Rejected, _rejected)
    app.add_exception_handler(Unavailable, _unavailable)
    app.add_exception_handler(HTTPException, _http)


def problem(
    status: int, members: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """One problem document."""
    return Response(msgspec.json.encode(members), status, headers, media_type=PROBLEM)


async def _rejected(_: Request, error: Exception) -> Response:
    if not isinstance(error, Rejected):
        raise error
    unknown_key = isinstance(error, Denied) and error.status == 401
    headers = {"WWW-Authenticate": "Bearer"} if unknown_key else None
    return problem(error.status, error.problem(), headers)


async def _unavailable(_: Request, error: Exception) -> Response:
    if not isinstance(error, Unavailable):
        raise error
    members = {"type": "about:blank", "title": "Unavailable", "status": 503, "detail": error.detail}
    return problem(503, members, {"Retry-After": str(math.ceil(error.retry_after_s))})


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    members = {"type": "about:blank", "title": error.detail, "status": error.status_code}
    return problem(error.status_code, members, dict(error.headers or {}))
