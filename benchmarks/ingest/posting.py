"""One keep-alive connection that posts and reads status lines: the least HTTP that is right."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

AGAIN_S = 0.05
"""Before a connection that the server closed is opened again."""
NOTHING_REFUSED = b'"refused":[]'


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``status`` 0: the connection broke first."""

    status: int
    number: int
    due_s: float
    sent_s: float
    shows: int
    retry_after: bool
    refused: bool


class Connection(asyncio.Protocol):
    """At most one post under way. Opened again when the server closes it."""

    def __init__(
        self, host: str, port: int, answered: Callable[[Connection, Answer], None]
    ) -> None:
        self._host = host
        self._port = port
        self._answered = answered
        self._transport: asyncio.WriteTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unsent: bytes | None = None
        self._received = bytearray()
        self._number = -1
        self._due_s = self._sent_s = 0.0
        self._shows = 0

    async def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connect. Raises ``OSError``."""
        self._loop = loop
        await loop.create_connection(lambda: self, self._host, self._port)

    def send(self, request: bytes, *, number: int, due_s: float, shows: int) -> None:
        """Post; the answer comes to ``answered``, also when the connection breaks."""
        self._number, self._due_s, self._shows = number, due_s, shows
        self._sent_s = time.monotonic()
        self._received.clear()
        if self._transport is not None:
            self._transport.write(request)
            return
        self._unsent = request
        if self._opening is None:
            assert self._loop is not None
            self._opening = self._loop.create_task(self._reopen())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of ``asyncio.Protocol``."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is one by duck typing
        if self._unsent is not None:
            self._transport.write(self._unsent)
            self._unsent = None

    def data_received(self, data: bytes) -> None:
        """Part of ``asyncio.Protocol``."""
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._received[:head_end]).lower()
        if len(self._received) < head_end + 4 + _length(head):
            return
        if b"\r\nconnection: close" in head and self._transport is not None:
            self._transport.close()
            self._transport = None
        status = int(self._received[9:12])
        refused = status == 202 and NOTHING_REFUSED not in self._received
        self._done(status, retry_after=b"\r\nretry-after:" in head, refused=refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of ``asyncio.Protocol``: a post under way has broken."""
        self._transport = None
        if self._unsent is None:
            self._done(0)

    def _done(self, status: int, *, retry_after: bool = False, refused: bool = False) -> None:
        if self._number < 0:
            return
        number, self._number = self._number, -1
        self._answered(
            self,
            Answer(
                status=status,
                number=number,
                due_s=self._due_s,
                sent_s=self._sent_s,
                shows=self._shows,
                retry_after=retry_after,
                refused=refused,
            ),
        )

    async def _reopen(self) -> None:
        assert self._loop is not None
        while self._transport is None:
            await asyncio.sleep(AGAIN_S)
            try:
                await self.open(self._loop)
            except OSError:
                self._unsent = None
                self._opening = None
                self._done(0)
                return
        self._opening = None


def _length(head: bytes) -> int:
    at = head.find(b"\r\ncontent-length:")
    return int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
