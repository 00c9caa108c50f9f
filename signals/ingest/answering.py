"""Answers sent in pieces, so that what a client does not read stays counted, and not for ever.

A server takes an answer whole, whatever its length, and keeps what the client does not read. In
pieces it takes the next one only when most of the last is with the client.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.types import Scope, Send

PIECE_BYTES: Final = 65_536
ABORT: Final = "trimtab.abort"
"""In the ``state`` of a request's scope: closes its connection at once, unsent answers and all."""


async def send_answer(response: Response, scope: Scope, send: Send, *, within_s: float) -> None:
    """Send all of it; a client that does not read it in time loses its connection."""
    try:
        async with asyncio.timeout(within_s):
            await _send(response, send)
    except TimeoutError:
        scope["state"][ABORT]()
        await asyncio.sleep(0)  # The server hears of it before it finds the answer unfinished.


async def _send(response: Response, send: Send) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": response.raw_headers,
        }
    )
    body, at = bytes(response.body), 0
    while True:
        piece, at = body[at : at + PIECE_BYTES], at + PIECE_BYTES
        more = at < len(body)
        await send({"type": "http.response.body", "body": piece, "more_body": more})
        if not more:
            return
