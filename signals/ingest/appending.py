"""Posts that arrive together go to the bus together: one future and one wake-up for all of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Final

from signals.bus.port import Bus, Message
from signals.errors import Unavailable

GROUP_EVENTS: Final = 500
"""A group that has so many events does not wait for the rest of the loop's round."""


class Appender:
    """Hands messages to the bus, grouped by the rounds of the event loop. One loop's."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._messages: list[Message] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def append(self, messages: list[Message]) -> None:
        """Return when the messages are durable. Raises ``Unavailable``."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush, loop)
        waiting: asyncio.Future[None] = loop.create_future()
        self._messages += messages
        self._waiting.append(waiting)
        if len(self._messages) >= GROUP_EVENTS:
            self._flush(loop)
        await waiting

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        messages, self._messages = self._messages, []
        waiting, self._waiting = self._waiting, []
        if not messages:
            return
        try:
            appended = self._bus.append(messages)
        except Unavailable as unavailable:
            _settle(waiting, unavailable)
            return

        def settle(durable: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, waiting, durable.exception())

        appended.add_done_callback(settle)


def _settle(waiting: list[asyncio.Future[None]], failure: BaseException | None) -> None:
    for each in waiting:
        if each.done():
            continue
        if failure is None:
            each.set_result(None)
        else:
            each.set_exception(failure)
