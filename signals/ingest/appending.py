"""Posts that arrive together go to the bus together: one future and one wake-up for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from msgspec import Struct

from signals.bus.port import Bus, Message
from signals.errors import Rejected, Unavailable

GROUP_EVENTS: Final = 500
"""A group that has so many events does not wait for the rest of the loop's round."""


class _Post(Struct, frozen=True):
    messages: list[Message]
    waiting: asyncio.Future[None]


class Appender:
    """Hands messages to the bus, grouped by the rounds of the event loop. One loop's."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._posts: list[_Post] = []
        self._events = 0

    async def append(self, messages: list[Message]) -> None:
        """Return when the messages are durable. Raises ``Unavailable``, and ``Rejected`` when one
        of them is larger than the log takes."""
        loop = asyncio.get_running_loop()
        if not self._posts:
            loop.call_soon(self._flush, loop)
        waiting: asyncio.Future[None] = loop.create_future()
        self._posts.append(_Post(messages, waiting))
        self._events += len(messages)
        if self._events >= GROUP_EVENTS:
            self._flush(loop)
        await waiting

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        posts, self._posts, self._events = self._posts, [], 0
        if posts:
            self._append(posts, loop)

    def _append(self, posts: Sequence[_Post], loop: asyncio.AbstractEventLoop) -> None:
        """Whatever the bus does, everybody gets an answer, and a post only that about itself."""
        try:
            appended = self._bus.append([each for post in posts for each in post.messages])
        except Rejected as rejected:
            if len(posts) == 1:
                _settle(posts, rejected)
                return
            for post in posts:
                self._append([post], loop)
            return
        except Unavailable as unavailable:
            _settle(posts, unavailable)
            return
        except BaseException as mistake:
            _settle(posts, mistake)
            raise

        def settle(durable: Future[None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, posts, durable.exception())

        appended.add_done_callback(settle)


def _settle(posts: Sequence[_Post], failure: BaseException | None) -> None:
    for post in posts:
        if post.waiting.done():
            continue
        if failure is None:
            post.waiting.set_result(None)
        else:
            post.waiting.set_exception(failure)
