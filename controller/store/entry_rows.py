"""An audit entry from its row: from the bytes that were hashed, or what the columns still tell."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy.engine import Row

from controller.store.tables import audit_entries
from policies.audit import Entry

ENTRY_COLUMNS: Final = tuple(
    audit_entries.c[name]
    for name in ("leaf_index", "at_us", "actor", "action", "subject", "target", "stored")
)


def entry_of(row: Row[Any]) -> Entry:
    """Of a row of ``ENTRY_COLUMNS``. Without its bytes, it is marked as archived."""
    if row.stored is not None:
        return msgspec.json.decode(row.stored, type=Entry)
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
