"""Old rows leave ``features.db`` in bounded steps, one short transaction per table.

Time is the bus's: when the last entry was accepted that the stage has read (for windows, the
target's watermark). So a stage that is behind, or replays, never forgets what it still needs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from signals.events import MICROS
from signals.features.keeping import oldest_us
from signals.features.letters import bury_orphans, expire
from signals.features.model import ATOM_S, WIDTHS_S
from signals.features.seen import SeenDays
from signals.settings import FeatureSettings

Step = Callable[[sqlite3.Connection], int]
"""Deletes a bounded number of rows, in the caller's transaction; says how many."""

_BY_TIME = (("requests", "arrival_us"), ("seconds", "to_us"))


def steps(
    db: sqlite3.Connection, seen: SeenDays, settings: FeatureSettings, *, accepted_us: int
) -> Iterator[Step]:
    """The steps of one round."""
    limit = settings.prune_rows
    cut_us = accepted_us - settings.request_retention_s * MICROS
    for target, watermark_us in db.execute("SELECT target, us FROM watermarks").fetchall():
        for table, column in _BY_TIME:
            yield _deletion(f"{table} WHERE target = ? AND {column} < ?", (target, cut_us), limit)
        yield from _windows(db, target, watermark_us, settings)
    yield _deletion("outcomes WHERE time_us < ?", (cut_us,), limit)
    yield _deletion("outcome_values WHERE arrival_us < ?", (cut_us,), limit)
    yield _deletion("engines WHERE last_us < ?", (cut_us,), limit)
    orphans_us = accepted_us - settings.orphan_s * MICROS
    yield lambda db: bury_orphans(db, orphans_us, limit, settings)
    letters_us = accepted_us - settings.letter_retention_s * MICROS
    yield lambda db: expire(db, letters_us, limit)
    for day in seen.over(accepted_us):
        yield lambda _, day=day: seen.forget_some(day)  # type: ignore[misc]


def _windows(
    db: sqlite3.Connection, target: str, watermark_us: int, settings: FeatureSettings
) -> Iterator[Step]:
    """Old windows of each width; none that starts after one that is still open, which may be made
    of it."""
    first_open = "SELECT MIN(start_us) FROM windows WHERE closed = 0 AND target = ?"
    ((open_us,),) = db.execute(first_open, (target,)).fetchall()
    for width_s in WIDTHS_S:
        before_us = oldest_us(width_s, watermark_us=watermark_us, settings=settings)
        if open_us is not None:
            before_us = min(before_us, open_us)
        old = "windows WHERE target = ? AND width_s = ? AND start_us < ?"
        yield _deletion(old, (target, width_s, before_us), settings.prune_rows)
    forgotten_us = oldest_us(ATOM_S, watermark_us=watermark_us, settings=settings)
    said = "edge_parts WHERE target = ? AND width_s = ? AND start_us < ?"
    yield _deletion(said, (target, ATOM_S, forgotten_us), settings.prune_rows)


def _deletion(from_where: str, arguments: tuple[str | int, ...], limit: int) -> Step:
    table = from_where.partition(" ")[0]
    delete = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {from_where} LIMIT ?)"
    return lambda db: db.execute(delete, (*arguments, limit)).rowcount
