"""Segments: what each replica had, from when until when, as it was read back."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import insert, select, tuple_, update
from sqlalchemy.engine import Row

from controller.store.audit_rows import AuditRows
from controller.store.rows import bounded, content, decoded, encoded, sifted
from controller.store.tables import segments
from policies.in_force import Segment


class SegmentRows(AuditRows):
    """The ``segments`` table. The row's ``until_us`` and ``entry`` are beside the body: they come

    later than what was recorded of it, so the audit's digest of the body stays true. What nobody
    knows is of no incarnation.
    """

    def add_segment(self, segment: Segment, *, actor: str, at_us: int) -> None:
        """The replica's open segment ends where this one begins."""
        connection = self._for_writing()
        columns = segments.c
        bare = msgspec.structs.replace(segment, until_us=None, entry=None)
        body = encoded(bare)
        same_replica = (columns.target == segment.target, columns.replica == segment.replica)
        newest = select(columns.seq).where(*same_replica)
        newest = newest.order_by(columns.from_us.desc(), columns.seq.desc()).limit(1)
        is_open = (columns.seq == newest.scalar_subquery(), columns.until_us.is_(None))
        connection.execute(update(segments).where(*is_open).values(until_us=segment.from_us))
        row = {
            "target": segment.target,
            "replica": segment.replica,
            "from_us": segment.from_us,
            "until_us": segment.until_us,
            "incarnation": segment.incarnation,
            "version": segment.version,
            "body": body,
        }
        made = insert(segments).returning(columns.seq)
        same = columns.seq == connection.execute(made, row).scalar_one()

        def point_at(entry: int) -> None:
            connection.execute(update(segments).where(same).values(entry=entry))

        self._record(
            at_us=at_us,
            actor=actor,
            action="settings.observed" if segment.known else "settings.unknown",
            subject=segment.replica,
            target=segment.target,
            details={"content": content(body), "segment": msgspec.to_builtins(bare)},
            then=point_at,
        )

    def segment_at(self, target: str, replica: str, at_us: int) -> Segment | None:
        """None before the first."""
        columns = segments.c
        query = select(columns.body, columns.until_us, columns.entry).where(
            columns.target == target, columns.replica == replica, columns.from_us <= at_us
        )
        query = query.order_by(columns.from_us.desc(), columns.seq.desc()).limit(1)
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _segment(row)

    def segments(
        self,
        target: str,
        *,
        replica: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        limit: int = 1000,
    ) -> list[Segment]:
        """In order of time."""
        names = [replica] if replica is not None else self.segment_replicas(target)
        found = [self._overlapping(target, name, from_us, to_us, bounded(limit)) for name in names]
        return list(islice(merge(*found, key=lambda one: (one.from_us, one.entry or 0)), limit))

    def segments_before(
        self,
        target: str,
        *,
        before: tuple[int, int],
        from_us: int,
        known: bool | None = None,
        limit: int = 100,
    ) -> list[Segment]:
        """Latest first."""
        columns, found = segments.c, []
        earlier = tuple_(columns.from_us, columns.entry) < tuple_(*before)
        for name in self.segment_replicas(target):
            query = select(columns.from_us, columns.entry, columns.seq).where(
                columns.target == target,
                columns.replica == name,
                columns.from_us >= from_us,
                columns.from_us <= before[0],
                earlier,
            )
            if known is not None:
                nobody_s = sifted(columns.incarnation) == ""
                query = query.where(~nobody_s if known else nobody_s)
            query = query.order_by(columns.from_us.desc(), columns.seq.desc()).limit(bounded(limit))
            found.append([tuple(row) for row in self._connection.execute(query)])
        latest = [seq for _, _, seq in islice(merge(*found, reverse=True), limit)]
        query = select(columns.body, columns.until_us, columns.entry)
        query = query.where(columns.seq.in_(latest))
        query = query.order_by(columns.from_us.desc(), columns.entry.desc())
        return [_segment(row) for row in self._connection.execute(query)] if latest else []

    def _overlapping(
        self, target: str, replica: str, from_us: int | None, to_us: int | None, limit: int
    ) -> list[Segment]:
        """The one that lies over ``from_us``, and those that begin after it."""
        columns = segments.c
        query = select(columns.body, columns.until_us, columns.entry)
        query = query.where(columns.target == target, columns.replica == replica)
        first = [] if from_us is None else [self.segment_at(target, replica, from_us)]
        if from_us is not None:
            query = query.where(columns.from_us > from_us)
        if to_us is not None:
            query = query.where(columns.from_us < to_us)
        query = query.order_by(columns.from_us, columns.seq).limit(limit)
        after = [_segment(row) for row in self._connection.execute(query)]
        over = [one for one in first if one is not None and (to_us is None or one.from_us < to_us)]
        return [*over, *after][:limit]

    def segment_of(self, incarnation: str, version: int) -> Segment | None:
        """The newest with that stamp."""
        columns = segments.c
        query = select(columns.body, columns.until_us, columns.entry)
        query = query.where(columns.incarnation == incarnation, columns.version == version)
        row = self._connection.execute(query.order_by(columns.seq.desc()).limit(1)).one_or_none()
        return None if row is None else _segment(row)

    def segment_replicas(self, target: str) -> list[str]:
        """By name; one look in the index for each."""
        columns, names = segments.c, list[str]()
        beyond = columns.replica >= ""
        while True:
            query = select(columns.replica).where(columns.target == target, beyond)
            query = query.order_by(columns.replica).limit(1)
            name = self._connection.execute(query).scalar_one_or_none()
            if name is None:
                return names
            names.append(name)
            beyond = columns.replica > name


def _segment(row: Row[Any, Any, Any]) -> Segment:
    found = decoded(row.body, Segment)
    return msgspec.structs.replace(found, until_us=row.until_us, entry=row.entry)
