"""The audit looked at from all sides: by subject, actor, action, target, and between two times.

Indexes and times of the audit rise together, so two times are two indexes, found first; what is
left is one index of the table read backwards from there. Of several filters one leads and the
others only sift: the one that the fewest entries meet, as far as a bounded look in each index says,
else the first of ``LEADS``. Left to itself the database may lead with one that a million meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, and_, func, not_, select
from sqlalchemy.engine import Row

from controller.store.audit_rows import LAST, AuditRows
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery
from controller.store.rows import bounded, sifted
from controller.store.tables import audit_entries
from policies.audit import Entry

LEADS: Final = ("subject", "action", "actor", "target")
PROBED: Final = 2000
"""Entries of one filter that are counted to see which leads: 0.1 ms in an index."""
ENOUGH: Final = 100
"""A filter that fewer entries meet leads at once: sifting them takes no longer than counting more,
and a subject, which is asked first, has a dozen or so."""
COLUMNS: Final = audit_entries.c

NEAR: Final = 10_000
"""Where many entries meet each of several filters, those that meet all are looked for among so many
of the latest first: a page is mostly full of them."""


class HistoryRows(AuditRows):
    """Reads of the ``audit_entries`` table."""

    def audit_lines(self, wanted: AuditQuery) -> list[AuditLine]:
        """Newest first."""
        bounds = self._bounds(wanted)
        if bounds is None:
            return []
        limit = bounded(wanted.limit)
        lead, many = self._lead(wanted)
        if many:
            near = COLUMNS.leaf_index > self._last(bounds) - NEAR
            found = self._found(wanted, lead, [*bounds, near], limit)
            if len(found) == limit:
                return found
        return self._found(wanted, lead, bounds, limit)

    def _found(
        self,
        wanted: AuditQuery,
        lead: str | None,
        bounds: Sequence[ColumnElement[bool]],
        limit: int,
    ) -> list[AuditLine]:
        """Newest first; of a family that leads, each of its actions is looked for by itself."""
        if lead != "action" or not (wanted.action or "").endswith("."):
            return self._lines([*bounds, *_filters(wanted, lead)], limit)
        members = [
            self._indexes([*bounds, *_filters(wanted, lead, action=action)], limit)
            for action in self.audit_actions(wanted.action or "")
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

    def _lead(self, wanted: AuditQuery) -> tuple[str | None, bool]:
        """The filter to find entries by (None: there is none), and whether too many meet it."""
        given = [name for name in LEADS if getattr(wanted, name) is not None]
        if len(given) < 2:
            return (given[0] if given else None), False
        met = dict[str, int]()
        for name in given:
            met[name] = self._met(_met(name, getattr(wanted, name)))
            if met[name] < min(ENOUGH, PROBED):
                return name, False
        lead = min(given, key=met.__getitem__)
        return lead, met[lead] == PROBED

    def _last(self, bounds: Iterable[ColumnElement[bool]]) -> int:
        """The highest index within some bounds; -1: there is none."""
        highest = select(func.coalesce(func.max(COLUMNS.leaf_index), -1)).where(*bounds)
        return int(self._connection.execute(highest).scalar_one())

    def _met(self, filters: Iterable[ColumnElement[bool]]) -> int:
        """How many entries meet it; no more than ``PROBED`` are counted."""
        some = select(COLUMNS.leaf_index).where(*filters).limit(PROBED).subquery()
        return int(self._connection.execute(select(func.count()).select_from(some)).scalar_one())

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


def _filters(
    wanted: AuditQuery, lead: str | None, *, action: str | None = None
) -> list[ColumnElement[bool]]:
    """``lead`` on its bare column, which an index serves; the others on what none can."""
    given = {name: getattr(wanted, name) for name in LEADS}
    given |= {"action": action or wanted.action}
    filters: list[ColumnElement[bool]] = []
    for name, value in given.items():
        if value is not None:
            filters += _met(name, value, sifts=name != lead)
    if wanted.but is not None:
        filters.append(not_(and_(*_met("action", wanted.but, sifts=True))))
    return filters


def _met(name: str, value: str, *, sifts: bool = False) -> list[ColumnElement[bool]]:
    """One filter; an action that ends in ``.`` is a family."""
    column = sifted(COLUMNS[name]) if sifts else COLUMNS[name]
    if name == "action" and value.endswith("."):
        return [column >= value, column < value + LAST]
    return [column == value]


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
