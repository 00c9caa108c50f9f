"""The audit's rows, as they are read and as acts of no other table are written."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import select

from controller.store.appending import Appending
from controller.store.entry_rows import ENTRY_COLUMNS, EntryRows
from controller.store.rows import bounded, sifted
from controller.store.tables import audit_entries
from policies.audit import Entry
from policies.lifecycle import STATES
from signals.errors import Broken

RESERVED: Final = frozenset(
    {f"policy.{state}" for state in STATES}
    | {"key.created", "key.revoked", "key.rotated", "key.superseded"}
    | {"policy.seconded", "policy.sized", "policy.confirmed"}
    | {"metric.declared", "metric.changed", "metric.retired"}
    | {"override.set", "override.ended", "change.declared", "change.ended"}
    | {"baseline.declared", "settings.observed", "settings.unknown", "audit.sealed"}
)
"""Actions that the verifier reads as changes of a row; each is written with its change."""
LAST: Final = "\uffff"
"""Sorts after whatever an id may hold."""


class AuditRows(Appending, EntryRows):
    """Append and read; nothing else, and the database's triggers refuse anything else."""

    def append_audit(
        self,
        *,
        at_us: int,
        actor: str,
        action: str,
        subject: str,
        target: str,
        details: dict[str, Any],
    ) -> None:
        """One more entry; its time is the head's where the clock has gone back.

        Raises ``Broken`` for the actions that only the change itself may record.
        """
        if action in RESERVED:
            raise Broken(f"{action} is recorded by the change itself, never beside it")
        self._record(
            at_us=at_us,
            actor=actor,
            action=action,
            subject=subject,
            target=target,
            details=details,
        )

    def audit(
        self,
        *,
        after: int = -1,
        limit: int = 1000,
        target: str | None = None,
        subject: str | None = None,
    ) -> list[Entry]:
        """Entries above ``after``, in order, decoded from the bytes that were hashed."""
        rows = audit_entries.c
        query = select(*ENTRY_COLUMNS).where(rows.leaf_index > after)
        if subject is not None:
            query = query.where(rows.subject == subject)
        if target is not None:
            query = query.where((rows.target if subject is None else sifted(rows.target)) == target)
        query = query.order_by(rows.leaf_index).limit(bounded(limit))
        return [self._entry(row) for row in self._audited.execute(query)]

    def subjects(
        self, prefix: str, *, target: str | None = None, before: str | None = None, limit: int = 100
    ) -> list[str]:
        """Subjects that begin with ``prefix``, each once, highest first."""
        rows = audit_entries.c
        query = select(rows.subject).where(rows.subject >= prefix, rows.subject < prefix + LAST)
        if target is not None:
            query = query.where(sifted(rows.target) == target)
        if before is not None:
            query = query.where(rows.subject < before)
        query = query.distinct().order_by(rows.subject.desc()).limit(bounded(limit))
        return list(self._audited.execute(query).scalars())
