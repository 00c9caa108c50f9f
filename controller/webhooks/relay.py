"""The audit is the outbox: what was recorded becomes deliveries, each once, for ever.

::

    audit ──(after the hook's cursor)──► subscribed? ──► deliveries ─┐
                                                cursor moves ────────┴─ one transaction

A crash between any two steps changes nothing, or has moved both. An act that was rolled back has
no entry, so nobody is told of it. When ``max_waiting`` are owed to a hook, its cursor stands still:
the audit keeps what comes, and nothing is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from controller.store.past_port import Delivery
from controller.store.port import Store, Tx
from controller.webhooks.settings import HookSettings, WebhookSettings
from controller.webhooks.telling import delivery_id, subscribed
from policies.audit import Entry

log = logging.getLogger(__name__)


def note_of(hook: str) -> str:
    """Where a hook's cursor is kept: the index of the last entry that it is done with."""
    return f"webhooks:{hook}"


def cursor_of(tx: Tx, hook: str) -> int | None:
    """None: the hook is new."""
    kept = tx.note(note_of(hook))
    return None if kept is None else int(kept)


class Relay:
    """Makes deliveries of entries. Only the process that writes the store runs one."""

    def __init__(
        self, store: Store, settings: WebhookSettings, *, clock: Callable[[], int]
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def step(self) -> bool:
        """One batch of each hook; whether there may be more. Raises ``Unavailable``."""
        more = [self._hook(name, hook) for name, hook in self._settings.hooks.items()]
        return any(more)

    def _hook(self, name: str, hook: HookSettings) -> bool:
        with self._store.read() as tx:
            cursor, end = cursor_of(tx, name), tx.audit_size() - 1
            entries = [] if cursor is None else self._next(tx, name, cursor, end)
        if cursor is None or cursor > end:
            self._start(name, cursor, end)
        elif entries:
            self._move(name, hook, cursor, entries)
        return len(entries) == self._settings.batch

    def _next(self, tx: Tx, name: str, cursor: int, end: int) -> list[Entry]:
        """Entries to look at, no more than there is room for."""
        if cursor >= end:
            return []
        room = self._settings.max_waiting - tx.delivery_counts(name).get("waiting", 0)
        limit = min(self._settings.batch, room)
        return tx.audit(after=cursor, limit=limit) if limit > 0 else []

    def _start(self, name: str, cursor: int | None, end: int) -> None:
        """A new hook is told of what comes from now on."""
        if cursor is not None:
            log.warning("webhook %s: the audit ends before its cursor; it goes on from there", name)
        with self._store.write() as tx:
            if cursor_of(tx, name) == cursor:
                tx.set_note(note_of(name), str(end))

    def _move(self, name: str, hook: HookSettings, cursor: int, entries: Sequence[Entry]) -> None:
        """Owe what is subscribed to, and be done with the entries, in one transaction."""
        now_us = self._clock()
        owed = [_owed(name, entry, now_us) for entry in entries if subscribed(name, hook, entry)]
        with self._store.write() as tx:
            if cursor_of(tx, name) != cursor:
                return
            for delivery in owed:
                tx.add_delivery(delivery)
            tx.set_note(note_of(name), str(entries[-1].index))


def _owed(hook: str, entry: Entry, now_us: int) -> Delivery:
    return Delivery(
        id=delivery_id(hook, entry.index),
        hook=hook,
        entry=entry.index,
        event=entry.action,
        due_us=now_us,
        created_us=now_us,
    )
