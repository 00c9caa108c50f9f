"""A change written to ``features.db``, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from msgspec import Struct

from signals.features import rows
from signals.features.change import Change, Orphan, ProducerCounts
from signals.features.model import WindowKey, WindowRevision

_REQUEST = """INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (request_id) DO UPDATE SET good = excluded.good, due_us = excluded.due_us,
external_id = excluded.external_id, row = excluded.row"""
_WINDOW = f"""INSERT INTO windows ({rows.WINDOW_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target, width_s, start_us, replica, intent, digest, trial, block) DO UPDATE SET
revision = excluded.revision, closed = excluded.closed, incomplete = excluded.incomplete,
cursor = excluded.cursor, counts = excluded.counts"""
_VANISH = """DELETE FROM windows WHERE target = ? AND width_s = ? AND start_us = ?
AND replica = ? AND intent = ? AND digest = ? AND trial = ? AND block = ?"""
_ENGINE = """INSERT INTO engines VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (target, replica, incarnation) DO UPDATE SET
first_us = excluded.first_us, last_us = excluded.last_us, state = excluded.state"""
_DEAD_LETTER = "INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Written(Struct, frozen=True, kw_only=True):
    """A change, the windows it makes and ends, and its producers' new totals."""

    change: Change
    windows: Iterable[WindowRevision]
    vanished: Iterable[WindowKey]
    producers: Mapping[str, ProducerCounts]


def write(db: sqlite3.Connection, written: Written) -> None:
    """Everything but ``seen`` and the position. Raises ``sqlite3.Error``."""
    change = written.change
    db.executemany(_REQUEST, [rows.row_of_request(row) for row in change.rows.values()])
    db.executemany(
        "INSERT INTO seconds VALUES (?, ?, ?, ?, ?)",
        [(s.target, s.to_us, s.trial, s.block, rows.text(s)) for s in change.seconds],
    )
    db.executemany(
        "INSERT INTO outcomes VALUES (?, ?, ?, ?)",
        [
            (each.offset, each.outcome.request_id, each.outcome.time_us, rows.text(each.outcome))
            for each in change.outcomes
        ],
    )
    _write_orphans(db, change)
    db.executemany(_DEAD_LETTER, [rows.row_of_dead(letter) for letter in change.dead])
    db.executemany(
        _ENGINE,
        [
            (e.target, e.replica, e.incarnation, e.first_us, e.last_us, rows.text(e))
            for e in change.engines.values()
        ],
    )
    marks = "INSERT OR REPLACE INTO watermarks VALUES (?, ?)"
    db.executemany(marks, change.watermarks.items())
    db.executemany(_WINDOW, [rows.row_of_window(window) for window in written.windows])
    db.executemany(_VANISH, [rows.row_of_key(key) for key in written.vanished])
    totals = [(name, rows.text(counts)) for name, counts in written.producers.items()]
    db.executemany("INSERT OR REPLACE INTO producers VALUES (?, ?)", totals)


def bury_orphans(db: sqlite3.Connection, before_us: int, limit: int) -> int:
    """Make orphans accepted before then dead letters; how many."""
    oldest = "FROM orphans WHERE accepted_us < ? ORDER BY bus_offset LIMIT ?"
    gone = db.execute(f"SELECT bus_offset, accepted_us, signal {oldest}", (before_us, limit))
    letters = [rows.dead_orphan(*row) for row in gone.fetchall()]
    db.executemany(_DEAD_LETTER, [rows.row_of_dead(letter) for letter in letters])
    db.executemany(
        "DELETE FROM orphans WHERE bus_offset = ?", [(letter.offset,) for letter in letters]
    )
    return len(letters)


def _write_orphans(db: sqlite3.Connection, change: Change) -> None:
    db.executemany(
        "INSERT INTO orphans VALUES (?, ?, ?, ?, ?, ?)",
        [_orphan_row(orphan) for orphan in change.orphans.values()],
    )
    gone = [(offset,) for offset in change.orphans_gone]
    db.executemany("DELETE FROM orphans WHERE bus_offset = ?", gone)


def _orphan_row(orphan: Orphan) -> tuple[int | str | None, ...]:
    signal = orphan.signal
    return (
        orphan.offset,
        signal.target,
        signal.request_id,
        signal.external_id,
        orphan.accepted_us,
        rows.text(signal),
    )
