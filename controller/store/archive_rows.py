"""Archives: which entries' bytes have left the table, for which file. Leaves and columns stay."""

from __future__ import annotations

import msgspec
from sqlalchemy import insert, select, update

from controller.store.audit_rows import AuditRows
from controller.store.past_port import Archive
from controller.store.rows import bounded, content, encoded
from controller.store.tables import audit_archives, audit_entries
from signals.errors import Broken


class ArchiveRows(AuditRows):
    """The ``audit_archives`` table, and the bytes it covers."""

    def stored_entries(self, first: int, *, limit: int = 1000) -> list[tuple[int, bytes, bytes]]:
        """Index, leaf hash and bytes from ``first`` up, in order; ends before one without bytes."""
        columns = audit_entries.c
        query = select(columns.leaf_index, columns.leaf_hash, columns.stored)
        query = query.where(columns.leaf_index >= first)
        query = query.order_by(columns.leaf_index).limit(bounded(limit))
        found: list[tuple[int, bytes, bytes]] = []
        for row in self._audited.execute(query):
            if row.stored is None:
                break
            found.append((row.leaf_index, bytes(row.leaf_hash), bytes(row.stored)))
        return found

    def index_before(self, before_us: int) -> int:
        """The highest index whose entry is older; -1 where there is none."""
        columns = audit_entries.c
        query = select(columns.leaf_index).where(columns.at_us < before_us)
        query = query.order_by(columns.at_us.desc(), columns.leaf_index.desc()).limit(1)
        found = self._audited.execute(query).scalar_one_or_none()
        return -1 if found is None else int(found)

    def add_archive(self, archive: Archive, *, actor: str) -> None:
        """Record that a file holds these entries; from now on their bytes may leave."""
        if archive.last < archive.first:
            raise Broken("an archive holds at least one entry")
        body = encoded(archive)
        row = {
            "first_index": archive.first,
            "last_index": archive.last,
            "sha256": bytes.fromhex(archive.sha256),
            "body": body,
        }
        self._for_writing()
        self._audited.execute(insert(audit_archives), row)
        self._record(
            at_us=archive.at_us,
            actor=actor,
            action="audit.sealed",
            subject=archive.file,
            target="",
            details={"content": content(body), "archive": msgspec.to_builtins(archive)},
        )

    def drop_stored(self, first: int, last: int) -> int:
        """The database's own trigger refuses what no archive covers."""
        columns = audit_entries.c
        there = columns.leaf_index.between(first, last)
        gone = self._for_writing().execute(
            update(audit_entries).where(there, columns.stored.is_not(None)).values(stored=None)
        )
        return int(gone.rowcount)
