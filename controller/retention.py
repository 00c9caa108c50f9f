"""What may go leaves the store: old decisions, their learners, deliveries that are done. Serve's.

A bounded step at a time, so that the lock is held for milliseconds; while there is more to drop the
next follows at once, a pause apart. The audit stays: it holds nothing of users.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from controller.privacy import DAY_S, PrivacySettings
from controller.store.port import Store
from signals.errors import Unavailable
from signals.events import MICROS

JOIN_S: Final = 5.0
SOON_S: Final = 0.5
"""Between two steps while there is more: others write, too."""

log = logging.getLogger(__name__)


def prune(store: Store, settings: PrivacySettings, *, now_us: int) -> bool:
    """One step; whether there may be more. Raises ``Unavailable``."""
    limit = settings.prune_rows
    decisions_us = now_us - settings.decision_days * DAY_S * MICROS
    deliveries_us = now_us - settings.delivery_days * DAY_S * MICROS
    with store.write() as tx:
        gone = (
            tx.prune_decisions(decisions_us, limit=limit),
            tx.prune_learners(decisions_us, limit=limit),
            tx.prune_deliveries(deliveries_us, limit=limit),
        )
    return max(gone) >= limit


@contextmanager
def retention_running(
    store: Store, settings: PrivacySettings, *, clock: Callable[[], int]
) -> Iterator[None]:
    """Prune now and then while the ``with`` is open; a store that does not answer is waited for."""
    stop = threading.Event()

    def run() -> None:
        wait_s = settings.prune_every_s
        while not stop.wait(wait_s):
            try:
                wait_s = (
                    SOON_S if prune(store, settings, now_us=clock()) else settings.prune_every_s
                )
            except Unavailable as error:
                log.warning("the store's retention waits: %s", error.detail)

    thread = threading.Thread(target=run, name="retention")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(JOIN_S)
