"""The audit looked at from all sides: by subject, actor, action, target, and between two times.

Indexes and times of the audit rise together, so two times are two indexes, found first; what is
left is one index of the table read backwards from there. Of several filters the first named here
leads (subject, action, actor, target) and the others only sift: left to itself the database may
lead with one that a million entries meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, and_, func, not_, select
from sqlalchemy.engine import Row

from controller.store.audit_rows import LAST, AuditRows
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery
from controller.store.rows import bounded
from controller.store.tables import audit_entries
from policies.audit import Entry

LEADS: Final = ("subject", "action", "actor", "target")
COLUMNS: Final = audit_entries.c


class HistoryRows(AuditRows):
    """Reads of the ``audit_entries`` table."""

    def audit_lines(self, wanted: AuditQuery) -> list[AuditLine]:
        """Newest first."""
        bounds = self._bounds(wanted)
        if bounds is None:
            return []
        limit = bounded(wanted.limit)
        if wanted.action is None or not wanted.action.endswith(".") or wanted.subject is not None:
            return self._lines([*bounds, *_filters(wanted)], limit)
        members = [
            self._indexes([*bounds, *_filters(wanted, action=action)], limit)
            for action in self.audit_actions(wanted.action)
        ]
        latest = list(islice(merge(*members, reverse=True), limit))
        return self._lines([COLUMNS.leaf_index.in_(latest)], limit) if latest else []

    def audit_actions(self, prefix: str = "") -> list[str]:
        """Each action there is, by name; one look in the index for each."""
        found: list[str] = []
        above = COLUMNS.action >= prefix
        while True:
            query = select(COLUMNS.action).where(above, COLUMNS.action < prefix + LAST)
            query = query.order_by(COLUMNS.action).limit(1)
            action = self._connection.execute(query).scalar_one_or_none()
            if action is None:
                return found
            found.append(action)
            above = COLUMNS.action > action

    def audit_index_at(self, at_us: int) -> int | None:
        """The first entry at or after a time; None: there is none yet."""
        query = select(COLUMNS.leaf_index).where(COLUMNS.at_us >= at_us)
        query = query.order_by(COLUMNS.at_us, COLUMNS.leaf_index).limit(1)
        return self._connection.execute(query).scalar_one_or_none()

    def _bounds(self, wanted: AuditQuery) -> list[ColumnElement[bool]] | None:
        """The times as indexes; None: nothing lies between them."""
        bounds: list[ColumnElement[bool]] = []
        if wanted.from_us is not None:
            first = self.audit_index_at(wanted.from_us)
            if first is None:
                return None
            bounds.append(COLUMNS.leaf_index >= first)
        ends = [] if wanted.before is None else [wanted.before]
        if wanted.to_us is not None:
            beyond = self.audit_index_at(wanted.to_us)
            ends += [] if beyond is None else [beyond]
        if ends:
            bounds.append(COLUMNS.leaf_index < min(ends))
        return bounds

    def _indexes(self, where: Iterable[ColumnElement[bool]], limit: int) -> list[int]:
        query = select(COLUMNS.leaf_index).where(*where)
        query = query.order_by(COLUMNS.leaf_index.desc()).limit(limit)
        return list(self._connection.execute(query).scalars())

    def _lines(self, where: Iterable[ColumnElement[bool]], limit: int) -> list[AuditLine]:
        query = select(audit_entries).where(*where)
        query = query.order_by(COLUMNS.leaf_index.desc()).limit(limit)
        return [_line(row, self._bytes(row)) for row in self._connection.execute(query)]


def _filters(wanted: AuditQuery, *, action: str | None = None) -> list[ColumnElement[bool]]:
    """One filter on a bare column, which an index may serve; the others on what none can."""
    action = action or wanted.action
    given = {name: getattr(wanted, name) for name in LEADS} | {"action": action}
    filters: list[ColumnElement[bool]] = []
    for name in LEADS:
        value, column = given[name], COLUMNS[name]
        if value is None:
            continue
        sifts = func.coalesce(column, "") if filters else column
        if name == "action" and value.endswith("."):
            filters += [sifts >= value, sifts < value + LAST]
        else:
            filters.append(sifts == value)
    if wanted.but is not None:
        but = func.coalesce(COLUMNS.action, "")
        filters.append(not_(and_(but >= wanted.but, but < wanted.but + LAST)))
    return filters


def _line(row: Row[Any], stored: bytes | None) -> AuditLine:
    details = None if stored is None else msgspec.json.decode(stored, type=Entry).details
    return AuditLine(
        index=row.leaf_index,
        at_us=row.at_us,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        target=row.target,
        leaf_hash=row.leaf_hash.hex(),
        details=details,
    )
