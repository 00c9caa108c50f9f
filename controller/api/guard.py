"""Before anything of a request is believed: no body without a key, and none beyond the bound.

A framework reads the whole body before it asks for the key; this stands in front of it. Bodies of
the control plane are small, so one is read here, up to its bound, and handed on.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.problems import problem_answer

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """An ASGI application around another. 401 before reading, 413 beyond ``max_body_bytes``."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app = app
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] not in WITH_BODY:
            await self._app(scope, receive, send)
            return
        if not any(name == b"authorization" for name, _ in scope["headers"]):
            headers = {"WWW-Authenticate": "Bearer"}
            answer = problem_answer(401, "a bearer key is required", headers)
            await answer(scope, receive, send)
            return
        body = await read_body(receive, self._limit)
        if body is None:
            answer = problem_answer(413, f"the body has more than {self._limit} bytes")
            await answer(scope, receive, send)
            return
        await self._app(scope, replayed(body, receive), send)


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The whole body; None when it has more than ``most`` bytes."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body first and then what really comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
