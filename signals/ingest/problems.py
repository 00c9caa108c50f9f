"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from signals.errors import Denied, Rejected, Unavailable
from signals.ingest.rates import TooFast

PROBLEM = "application/problem+json"


def answer_with_problems(app: FastAPI) -> None:
    """Let ``app`` answer our errors, and the framework's own, as problem documents."""
    app.add_exception_handler(Rejected, _error)
    app.add_exception_handler(Unavailable, _error)
    app.add_exception_handler(HTTPException, _error)


def problem(
    status: int, members: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """One problem document."""
    return Response(msgspec.json.encode(members), status, headers, media_type=PROBLEM)


def rejected(error: Rejected) -> Response:
    """4xx: the caller's fault."""
    headers = None
    if isinstance(error, Denied) and error.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooFast):
        headers = _retry_after(error.retry_after_s)
    return problem(error.status, error.problem(), headers)


def unavailable(error: Unavailable) -> Response:
    """503: post the same again, later."""
    members = {"type": "about:blank", "title": "Unavailable", "status": 503, "detail": error.detail}
    return problem(503, members, _retry_after(error.retry_after_s))


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


async def _error(_: Request, error: Exception) -> Response:
    if isinstance(error, Rejected):
        return rejected(error)
    if isinstance(error, Unavailable):
        return unavailable(error)
    if not isinstance(error, HTTPException):
        raise error
    members = {"type": "about:blank", "title": error.detail, "status": error.status_code}
    return problem(error.status_code, members, dict(error.headers or {}))
