"""What stands before the framework: no body is read without a key, and none beyond the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Message, Receive, Scope, Send

from controller.api.guard import Guard

LIMIT = 1024
KEY = [(b"authorization", b"Bearer tt_x")]


class Inner:
    """An application that reads its body and says how long it was."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def call(
    inner: Inner, chunks: Sequence[bytes], headers: list[tuple[bytes, bytes]]
) -> tuple[int, int]:
    """(status, chunks that were read) of one POST."""
    read = 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": chunks[read - 1], "more_body": read < len(chunks)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/policies", "headers": headers}
    asyncio.run(Guard(inner, max_body_bytes=LIMIT)(scope, receive, send))
    return int(sent[0]["status"]), read


def test_without_a_key_nothing_of_the_body_is_read() -> None:
    inner = Inner()
    assert call(inner, [b"x" * LIMIT] * 1000, []) == (401, 0)
    assert inner.bodies == []


def test_a_body_beyond_the_bound_is_refused_as_soon_as_it_is_seen() -> None:
    inner = Inner()
    assert call(inner, [b"x" * LIMIT] * 1000, KEY) == (413, 2)
    assert inner.bodies == []


def test_a_body_within_the_bound_arrives_whole() -> None:
    inner = Inner()
    assert call(inner, [b"x" * 500, b"y" * 500], KEY) == (200, 2)
    assert inner.bodies == [b"x" * 500 + b"y" * 500]
