"""Old rows leave ``features.db`` in bounded steps, one short transaction per table.

Time is the bus's: when the last entry was accepted that the stage has read (for windows, the
target's watermark). So a stage that is behind, or replays, never forgets what it still needs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

from signals.events import MICROS
from signals.features.letters import bury_orphans
from signals.features.model import ATOM_S, MINUTE_S
from signals.features.publishing import oldest_atom_us
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
        oldest_us = oldest_atom_us(watermark_us, settings.atom_retention_s)
        minutes_us = watermark_us - settings.minute_retention_s * MICROS
        for width_s, before_us in ((ATOM_S, oldest_us), (MINUTE_S, minutes_us)):
            old = "windows WHERE target = ? AND width_s = ? AND start_us < ?"
            yield _deletion(old, (target, width_s, before_us), limit)
    yield _deletion("outcomes WHERE time_us < ?", (cut_us,), limit)
    yield _deletion("outcome_values WHERE arrival_us < ?", (cut_us,), limit)
    yield _deletion("engines WHERE last_us < ?", (cut_us,), limit)
    orphans_us = accepted_us - settings.orphan_s * MICROS
    yield lambda db: bury_orphans(db, orphans_us, limit, settings)
    for day in seen.over(accepted_us):
        yield _emptying(seen, day, limit)


def _deletion(from_where: str, arguments: tuple[str | int, ...], limit: int) -> Step:
    table = from_where.partition(" ")[0]
    delete = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {from_where} LIMIT ?)"
    return lambda db: db.execute(delete, (*arguments, limit)).rowcount


def _emptying(seen: SeenDays, day: int, limit: int) -> Step:
    """Empty a day's table step by step, then drop it: dropping a full one would hold the lock."""
    empty = _deletion(f"seen_{day}", (), limit)

    def step(db: sqlite3.Connection) -> int:
        deleted = empty(db)
        if deleted < limit:
            seen.drop(day)
        return deleted

    return step
