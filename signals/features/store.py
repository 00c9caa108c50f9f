"""``features.db`` for the stage: look up what a batch needs, write its change in one transaction.

Reads happen before the write lock is taken, which is sound because nobody else writes: a lock file
and the compare-and-set of the position see to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from signals.errors import Broken
from signals.features import retention, schema
from signals.features.lookups import Lookups
from signals.features.schema import passing
from signals.features.seen import SeenDays
from signals.features.writes import Written, write
from signals.file_lock import FileLock
from signals.settings import FeatureSettings


class Position(Struct, frozen=True):
    """How far the stage is: bus offset, when that entry was accepted, last window cursor."""

    bus_offset: int
    accepted_us: int
    cursor: int


class FeatureStore:
    """The writing end. Raises ``Unavailable`` for what may pass (disk, locks): open it afresh then.

    Any other ``sqlite3`` error is a mistake of ours and stops the stage.
    """

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path)
        try:
            with passing():
                self._db = schema.open_for_writing(path)
                self.position = self._read_position()
                self._seen = SeenDays(self._db)
        except BaseException:
            self._lock.release()
            raise
        self.lookups = Lookups(self._db, self._seen)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
        self._lock.release()

    def commit(self, written: Written, position: Position) -> None:
        """Write everything and the new position, or nothing. Raises ``Broken`` when fenced."""
        with passing(), self._transaction():
            self._move(position)
            self._seen.add(written.change.seen)
            write(self._db, written)
        self.position = position

    def prune(self, settings: FeatureSettings) -> bool:
        """One round of retention; True when there may be more to drop."""
        more = False
        accepted_us = self.position.accepted_us
        with passing():
            for step in retention.steps(self._db, self._seen, settings, accepted_us=accepted_us):
                with self._transaction():
                    more = step(self._db) >= settings.prune_rows or more
        return more

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _read_position(self) -> Position:
        select = "SELECT bus_offset, accepted_us, cursor FROM position"
        return Position(*self._db.execute(select).fetchone())

    def _move(self, to: Position) -> None:
        at = self.position
        moved = self._db.execute(
            "UPDATE position SET bus_offset = ?, accepted_us = ?, cursor = ?"
            " WHERE bus_offset = ? AND cursor = ?",
            (to.bus_offset, to.accepted_us, to.cursor, at.bus_offset, at.cursor),
        )
        if moved.rowcount != 1:
            raise Broken("another feature stage has moved the position")
