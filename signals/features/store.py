"""``features.db`` for the stage: look up what a batch needs, write its change in one transaction.

Reads happen before the write lock is taken, which is sound because nobody else writes: who opens
the file raises its epoch, and every transaction begins by asking whether the epoch is still ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from signals.errors import Fenced
from signals.features import retention, rows, schema
from signals.features.deaths import RunState
from signals.features.lookups import Lookups
from signals.features.schema import passing, transaction
from signals.features.seen import SeenDays
from signals.features.writes import Written, write
from signals.settings import FeatureSettings


class Position(Struct, frozen=True):
    """How far the stage is: bus offset, when that entry was accepted, last window cursor."""

    bus_offset: int
    accepted_us: int
    cursor: int


class _Rehearsed(Exception):
    """The end of a rehearsal."""


class FeatureStore:
    """The writing end, the only one from the moment it is opened: earlier ones are fenced.

    Raises ``Unavailable`` for what may pass (disk, locks): open it afresh then. Any other
    ``sqlite3`` error is a mistake of ours and stops the stage.
    """

    def __init__(self, path: Path) -> None:
        with passing():
            self._db = schema.open_for_writing(path)
            try:
                with transaction(self._db):
                    self.epoch, self.position = _take_over(self._db)
                self._seen = SeenDays(self._db)
            except BaseException:
                self._db.close()
                raise
        self.run = RunState()
        self.lookups = Lookups(self._db, self._seen)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def commit(self, written: Written, position: Position) -> None:
        """Write everything and the new position, or nothing. Raises ``Fenced``."""
        erases = written.change.erasure is not None
        with passing(), schema.overwriting(self._db, wanted=erases), self._writing():
            self._write(written, position)
        self.position = position

    def rehearse(self, written: Written, position: Position) -> None:
        """Fail as ``commit`` would; nothing changes."""
        with suppress(_Rehearsed), self._writing():
            self._write(written, position)
            raise _Rehearsed

    def begin(self, *, before: int | None) -> None:
        """A run begins, or goes on that had the file in epoch ``before``. Raises ``Fenced``."""
        with passing():
            found = self._db.execute("SELECT state FROM run").fetchone()
        state = RunState() if found is None else rows.run_decoder.decode(found[0])
        at = self.position.bus_offset
        if before is not None and state.epoch == before:
            self.note(state.resumed(epoch=self.epoch))
        else:
            self.note(state.begun(epoch=self.epoch, at=at))

    def note(self, state: RunState) -> None:
        """Keep what is known of this run, durably. Raises ``Fenced``."""
        with passing(), transaction(self._db):
            self._move(self.position)
            self._db.execute("INSERT OR REPLACE INTO run VALUES (1, ?)", (rows.text(state),))
        self.run = state

    def prune(self, settings: FeatureSettings) -> bool:
        """One round of retention; True when there may be more to drop. Raises ``Fenced``.

        A step that finds nothing writes nothing: SQLite sees that the position is the same.
        """
        more = False
        accepted_us = self.position.accepted_us
        with passing():
            for step in retention.steps(self._db, self._seen, settings, accepted_us=accepted_us):
                with transaction(self._db):
                    self._move(self.position)
                    more = step(self._db) >= settings.prune_rows or more
        return more

    def _write(self, written: Written, position: Position) -> None:
        change = written.change
        self._move(position)
        self._seen.free(change.ids_freed)
        self._seen.add(change.seen)
        self._seen.discard(change.ids_discarded)
        write(self._db, written)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with passing(), transaction(self._db):
                yield
        except BaseException:
            with passing():
                self._seen.look_again()
            raise

    def _move(self, to: Position) -> None:
        at = self.position
        moved = self._db.execute(
            "UPDATE position SET bus_offset = ?, accepted_us = ?, cursor = ?"
            " WHERE epoch = ? AND bus_offset = ? AND cursor = ?",
            (to.bus_offset, to.accepted_us, to.cursor, self.epoch, at.bus_offset, at.cursor),
        )
        if moved.rowcount != 1:
            raise Fenced(f"epoch {self.epoch} of the feature store has been taken over")


def _take_over(db: sqlite3.Connection) -> tuple[int, Position]:
    """Raise the epoch: whoever had the file before can't write to it any more."""
    epoch, *position = db.execute(
        "UPDATE position SET epoch = epoch + 1 RETURNING epoch, bus_offset, accepted_us, cursor"
    ).fetchone()
    return epoch, Position(*position)
