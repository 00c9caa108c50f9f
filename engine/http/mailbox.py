"""Carries outputs from the engine's thread to the event loop, one wake-up for a whole step.

Waking an event loop costs a system call. A step of 64 sequences makes 64 outputs at about the same
moment, so the first one wakes the loop and the others ride along.
"""

from __future__ import annotations

import asyncio
from collections import deque

from engine.generation import Output

Stream = asyncio.Queue[Output]
"""The outputs of one request. Bounded by its ``max_tokens``: each output but the last has one."""


class Mailbox:
    """``post`` from any thread; delivery on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._posted: deque[tuple[Stream, Output]] = deque()
        self._called = False

    def post(self, stream: Stream, output: Output) -> None:
        """Put ``output`` into ``stream`` on the loop's thread, soon and in order."""
        self._posted.append((stream, output))
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Cleared first: whoever posts from here on calls again, so nothing is left behind.
        self._called = False
        while self._posted:
            stream, output = self._posted.popleft()
            stream.put_nowait(output)
