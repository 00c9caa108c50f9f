"""Audit entries from their rows: from the bytes that were hashed, in the table or in an archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import select
from sqlalchemy.engine import Row

from controller.store.past_port import Archive
from controller.store.rows import Rows, decoded
from controller.store.tables import audit_archives, audit_entries
from policies.audit import Entry

AtHand = Callable[[Sequence[Archive], int], bytes | None]
"""The bytes of an archived entry; None where its file is not at hand. May raise ``Unavailable``."""

ENTRY_COLUMNS: Final = tuple(
    audit_entries.c[name]
    for name in ("leaf_index", "at_us", "actor", "action", "subject", "target", "stored")
)


class EntryRows(Rows):
    """``at_hand``: looks archived bytes up; only transactions that read have it."""

    at_hand: AtHand | None = None
    _archives: list[Archive] | None = None

    def archives(self) -> list[Archive]:
        """Oldest first."""
        query = select(audit_archives.c.body).order_by(audit_archives.c.first_index)
        return [decoded(body, Archive) for body in self._connection.execute(query).scalars()]

    def _entry(self, row: Row[Any]) -> Entry:
        """Of a row of ``ENTRY_COLUMNS``; marked as archived where its bytes are not at hand."""
        stored = self._bytes(row)
        if stored is not None:
            return msgspec.json.decode(stored, type=Entry)
        return Entry(
            index=row.leaf_index,
            at_us=row.at_us,
            actor=row.actor,
            action=row.action,
            subject=row.subject,
            target=row.target,
            details={},
            archived=True,
        )

    def _bytes(self, row: Row[Any]) -> bytes | None:
        if row.stored is not None or self.at_hand is None:
            return None if row.stored is None else bytes(row.stored)
        if self._archives is None:
            self._archives = self.archives()
        return self.at_hand(self._archives, row.leaf_index)
