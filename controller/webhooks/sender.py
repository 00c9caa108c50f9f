"""Posts what is due: each hook by itself, so that a slow one delays nobody else.

What became of the posts of a round is written in one transaction. A crash before it means that they
are posted again, with the same ids: at least once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from controller.store.past_port import Delivery
from controller.store.port import Store, Tx
from controller.webhooks.posting import Posting
from controller.webhooks.relay import Relay
from controller.webhooks.retrying import Attempt, after
from controller.webhooks.settings import WebhookSettings
from controller.webhooks.telling import GIVEN_UP
from signals.errors import NotFound, Unavailable
from signals.events import MICROS

ACTOR: Final = "webhooks"
LISTED: Final = 20
"""Entries that one notice of giving up names; it counts all of them."""
ROUND: Final = 8
"""Deliveries posted one after the other before what became of them is written."""

log = logging.getLogger(__name__)


class Sender:
    """Relays and sends until ``stop``. Chance is ``draw``, in [0, 1)."""

    def __init__(
        self,
        store: Store,
        settings: WebhookSettings,
        posting: Posting,
        *,
        clock: Callable[[], int],
        draw: Callable[[], float],
    ) -> None:
        self._store = store
        self._settings = settings
        self._posting = posting
        self._relay = Relay(store, settings, clock=clock)
        self._clock = clock
        self._draw = draw

    async def run(self, stop: threading.Event) -> None:
        """Return soon after ``stop`` is set: posts under way are dropped, and made again later."""
        steps: list[Callable[[], Awaitable[bool]]] = [self._relayed]
        steps += [partial(self.round, name) for name in self._settings.hooks]
        work = [asyncio.ensure_future(self._again(step)) for step in steps]
        told = asyncio.ensure_future(asyncio.to_thread(stop.wait))
        try:
            done, _ = await asyncio.wait([told, *work], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            stop.set()
            for each in work:
                each.cancel()
            await asyncio.gather(told, *work, return_exceptions=True)

    async def _again(self, step: Callable[[], Awaitable[bool]]) -> None:
        """Step for ever; at once while there is more, else every ``poll_ms``."""
        while True:
            more = False
            try:
                more = await step()
            except Unavailable as error:
                log.warning("webhooks wait: %s", error.detail)
            await asyncio.sleep(0 if more else self._settings.poll_ms / 1000)

    async def _relayed(self) -> bool:
        return await asyncio.to_thread(self._relay.step)

    async def round(self, hook: str) -> bool:
        """Post what is due to a hook, a few at most; whether there may be more."""
        limit = ROUND * self._settings.concurrency
        due = await asyncio.to_thread(self._due, hook, limit)
        if not due:
            return False
        free = asyncio.Semaphore(self._settings.concurrency)

        async def one(delivery: Delivery) -> Attempt:
            async with free:
                return await self._posting.attempt(delivery)

        attempts = await asyncio.gather(*(one(delivery) for delivery in due))
        await asyncio.to_thread(self._save, hook, attempts)
        return len(due) == limit

    def _due(self, hook: str, limit: int) -> list[Delivery]:
        with self._store.read() as tx:
            return tx.due_deliveries(self._clock(), hook=hook, limit=limit)

    def _save(self, hook: str, attempts: Sequence[Attempt]) -> None:
        now_us = self._clock()
        with self._store.write() as tx:
            lost = []
            for attempt in attempts:
                if _moved_on(tx, attempt.delivery):
                    continue
                now = after(attempt, self._settings, now_us=now_us, chance=self._draw())
                tx.save_delivery(now)
                if now.state == "given_up":
                    lost.append(now)
            _record(tx, hook, lost, now_us)


def _moved_on(tx: Tx, delivery: Delivery) -> bool:
    """Whether somebody asked for it again while it was posted."""
    try:
        now = tx.delivery(delivery.id)
    except NotFound:
        return True
    return now != delivery


def _record(tx: Tx, hook: str, lost: Sequence[Delivery], now_us: int) -> None:
    """One entry for all that was given up at once. That a notice of giving up was itself given up
    is not recorded: two dead hooks would tell each other for ever."""
    named = [each for each in lost if each.event != GIVEN_UP]
    if named:
        tx.append_audit(
            at_us=now_us,
            actor=ACTOR,
            action=GIVEN_UP,
            subject=hook,
            target="",
            details={
                "count": len(named),
                "entries": [each.entry for each in named[:LISTED]],
                "attempts": max(each.attempts for each in named),
                "oldest_s": (now_us - min(each.created_us for each in named)) // MICROS,
                "error": named[-1].error,
            },
        )
