"""The body of a post: read within its bounds of bytes and time, and expanded."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import Receive

from signals.codec import Malformed, TooLarge, expand
from signals.errors import Rejected
from signals.ingest.inflight import Share
from signals.settings import IngestSettings

BESIDE_BYTES: Final = 65_536
"""A body above this is large. A compressed one is expanded beside the event loop: inflating lets
go of the GIL."""


class TooSlow(Rejected):
    """The body did not come in time."""

    status = 408


async def read_body(
    receive: Receive, declared: str, share: Share, settings: IngestSettings
) -> bytes:
    """The body as sent. Raises ``Unavailable``, before anything is read if its length is declared.

    Raises ``TooLarge`` as soon as it is longer than allowed, ``TooSlow`` when it does not come,
    ``Malformed`` when the client hangs up.
    """
    if declared.isdecimal():
        _within(int(declared), settings.max_body_bytes)
        share.grow(int(declared))
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            return await _read(receive, share, settings)
    except TimeoutError as error:
        raise TooSlow(
            "the body did not come in time", allowed=f"{settings.body_timeout_s:g} s"
        ) from error


async def expand_body(body: bytes, encoding: str, share: Share, settings: IngestSettings) -> bytes:
    """The body without its content encoding; what it expands to is held, too."""
    limit = settings.max_body_bytes
    if not encoding or len(body) <= BESIDE_BYTES:
        plain = expand(body, encoding, limit=limit)
    else:
        plain = await asyncio.to_thread(expand, body, encoding, limit=limit)
    share.grow(len(plain))
    return plain


async def _read(receive: Receive, share: Share, settings: IngestSettings) -> bytes:
    message = await receive()
    first = _bounded(_chunk(message), share, settings)
    if not message.get("more_body"):
        return first
    chunks, length = [first], len(first)
    while message.get("more_body"):
        message = await receive()
        chunks.append(_chunk(message))
        length += len(chunks[-1])
        _within(length, settings.max_body_bytes)
        share.grow(length)
    return b"".join(chunks)


def _chunk(message: Any) -> bytes:
    if message["type"] != "http.request":
        raise Malformed("the client hung up before the body's end")
    return bytes(message.get("body", b""))


def _bounded(body: bytes, share: Share, settings: IngestSettings) -> bytes:
    _within(len(body), settings.max_body_bytes)
    share.grow(len(body))
    return body


def _within(length: int, limit: int) -> None:
    if length > limit:
        raise TooLarge(f"{length} bytes in one body", value=length, allowed=limit)
