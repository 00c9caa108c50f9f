"""Segments: what each replica had, from when until when, as it was read back."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import insert, or_, select, update
from sqlalchemy.engine import Row

from controller.store.audit_rows import AuditRows
from controller.store.rows import bounded, content, decoded, encoded
from controller.store.tables import segments
from policies.in_force import Segment


class SegmentRows(AuditRows):
    """The ``segments`` table. The row's ``until_us`` and ``entry`` are beside the body: they come

    later than what was recorded of it, so the audit's digest of the body stays true.
    """

    def add_segment(self, segment: Segment, *, actor: str, at_us: int) -> None:
        """The replica's open segment ends where this one begins."""
        connection = self._for_writing()
        columns = segments.c
        body = encoded(msgspec.structs.replace(segment, until_us=None, entry=None))
        is_open = (
            columns.target == segment.target,
            columns.replica == segment.replica,
            columns.until_us.is_(None),
        )
        connection.execute(update(segments).where(*is_open).values(until_us=segment.from_us))
        index = self._record(
            at_us=at_us,
            actor=actor,
            action="settings.observed" if segment.known else "settings.unknown",
            subject=segment.replica,
            target=segment.target,
            details={
                "content": content(body),
                "segment": msgspec.to_builtins(
                    msgspec.structs.replace(segment, until_us=None, entry=None)
                ),
            },
        )
        row = {
            "target": segment.target,
            "replica": segment.replica,
            "from_us": segment.from_us,
            "until_us": segment.until_us,
            "incarnation": segment.incarnation,
            "version": segment.version,
            "entry": index,
            "body": body,
        }
        connection.execute(insert(segments).values(row))

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
        columns = segments.c
        query = select(columns.body, columns.until_us, columns.entry)
        query = query.where(columns.target == target)
        if replica is not None:
            query = query.where(columns.replica == replica)
        if from_us is not None:
            query = query.where(or_(columns.until_us.is_(None), columns.until_us > from_us))
        if to_us is not None:
            query = query.where(columns.from_us < to_us)
        query = query.order_by(columns.from_us, columns.seq).limit(bounded(limit))
        return [_segment(row) for row in self._connection.execute(query)]

    def segment_of(self, incarnation: str, version: int) -> Segment | None:
        """The newest with that stamp."""
        columns = segments.c
        query = select(columns.body, columns.until_us, columns.entry)
        query = query.where(columns.incarnation == incarnation, columns.version == version)
        row = self._connection.execute(query.order_by(columns.seq.desc()).limit(1)).one_or_none()
        return None if row is None else _segment(row)

    def segment_replicas(self, target: str) -> list[str]:
        """By name."""
        columns = segments.c
        query = select(columns.replica).where(columns.target == target)
        return list(self._connection.execute(query.distinct().order_by(columns.replica)).scalars())


def _segment(row: Row[Any, Any, Any]) -> Segment:
    found = decoded(row.body, Segment)
    return msgspec.structs.replace(found, until_us=row.until_us, entry=row.entry)
