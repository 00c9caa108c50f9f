"""Bodies that end before they are there, or never end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from fastapi import Request
from starlette.types import Message

from engine.http.bodies import TooLarge, read_bounded
from signals.errors import Rejected


def read(messages: Sequence[Message], *, most: int = 10) -> bytes:
    """What is read of a request that comes in these pieces."""
    waiting = list(messages)

    async def receive() -> Message:
        return waiting.pop(0)

    request = Request({"type": "http", "method": "PATCH", "headers": []}, receive)
    return asyncio.run(read_bounded(request, most))


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_pieces_is_read_whole() -> None:
    assert read([piece(b"12345", more=True), piece(b"67890")]) == b"1234567890"


def test_a_body_is_given_up_as_soon_as_it_is_too_long() -> None:
    with pytest.raises(TooLarge, match="too large"):
        read([piece(b"12345", more=True), piece(b"678901", more=True)])


def test_a_caller_who_is_killed_in_the_middle_of_his_body_is_no_error_of_ours() -> None:
    with pytest.raises(Rejected, match="went away"):
        read([piece(b"12345", more=True), {"type": "http.disconnect"}])
