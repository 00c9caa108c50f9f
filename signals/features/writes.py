"""A change written to ``features.db``, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

from signals.features import erasing, letters, rows
from signals.features.change import Change, Orphan
from signals.features.model import WindowKey, WindowRevision
from signals.settings import FeatureSettings

_REQUEST = """INSERT INTO requests (request_id, target, intent, arrival_us, trial, block, good,
due_us, external_id, session_id, row) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (request_id) DO UPDATE SET good = excluded.good, due_us = excluded.due_us,
external_id = excluded.external_id, session_id = excluded.session_id, row = excluded.row"""
_WINDOW = f"""INSERT INTO windows ({rows.WINDOW_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target, width_s, start_us, replica, intent, digest, trial, block) DO UPDATE SET
revision = excluded.revision, closed = excluded.closed, incomplete = excluded.incomplete,
cursor = excluded.cursor, requests = excluded.requests, counts = excluded.counts"""
_VANISH = """DELETE FROM windows WHERE target = ? AND width_s = ? AND start_us = ?
AND replica = ? AND intent = ? AND digest = ? AND trial = ? AND block = ?"""
_ENGINE = """INSERT INTO engines VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (target, replica, incarnation) DO UPDATE SET
first_us = excluded.first_us, last_us = excluded.last_us, state = excluded.state"""
_VALUE = """INSERT INTO outcome_values VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (request_id, metric, producer) DO UPDATE SET
micros = excluded.micros, low = excluded.low, high = excluded.high,
time_us = excluded.time_us, event_id = excluded.event_id"""
_PART = """INSERT INTO edge_parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target, width_s, start_us, replica, intent, digest, trial, block, source)
DO UPDATE SET revision = excluded.revision, counts = excluded.counts"""
_ORPHAN = """INSERT OR REPLACE INTO orphans (bus_offset, target, request_id, external_id,
session_id, time_us, due_us, give_up_us, accepted_us, signal, producer)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Written(Struct, frozen=True, kw_only=True):
    """A change, the windows it makes and ends, and the bounds of what is kept."""

    change: Change
    windows: Iterable[WindowRevision]
    vanished: Iterable[WindowKey]
    settings: FeatureSettings


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
    db.executemany(_VALUE, [rows.row_of_value(*each) for each in change.values.items()])
    db.executemany(_PART, [rows.row_of_part(*each) for each in change.parts.items()])
    _write_orphans(db, change)
    letters.take_out(db, change.letters_gone)
    letters.bury(db, change.dead, written.settings)
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
    letters.add_counts(db, change.producers)
    if change.erasure is not None:
        erased = erasing.erase(db, change.erasure, limit=written.settings.erased_rows)
        change.commands = [erased.told(each) for each in change.commands]
    _write_commands(db, written)


def _write_orphans(db: sqlite3.Connection, change: Change) -> None:
    db.executemany(_ORPHAN, [_orphan_row(orphan) for orphan in change.orphans.values()])
    gone = [(offset,) for offset in change.orphans_gone]
    db.executemany("DELETE FROM orphans WHERE bus_offset = ?", gone)


def _write_commands(db: sqlite3.Connection, written: Written) -> None:
    change = written.change
    if not change.commands:
        return
    outcomes = [(each.offset, each.id, rows.text(each)) for each in change.commands]
    db.executemany("INSERT INTO commands VALUES (?, ?, ?)", outcomes)
    last = "SELECT bus_offset FROM commands ORDER BY bus_offset DESC LIMIT 1 OFFSET ?"
    old = f"DELETE FROM commands WHERE bus_offset <= ({last})"
    db.execute(old, (written.settings.commands,))
    for producer, quarantined in change.quarantine.items():
        if quarantined is None:
            db.execute("DELETE FROM quarantine WHERE producer = ?", (producer,))
        else:
            # Set aside already: since when, by whom and why stay as they were.
            row = (producer, rows.text(quarantined))
            db.execute("INSERT OR IGNORE INTO quarantine VALUES (?, ?)", row)


def _orphan_row(orphan: Orphan) -> tuple[int | str | None, ...]:
    signal, wait = orphan.signal, orphan.wait
    return (
        orphan.offset,
        signal.target,
        signal.request_id,
        signal.external_id,
        signal.session_id,
        signal.time_us,
        wait.due_us if wait is not None else None,
        wait.give_up_us if wait is not None else None,
        orphan.accepted_us,
        rows.text(signal),
        signal.producer,
    )
