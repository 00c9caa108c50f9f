"""Dead letters in ``features.db``: buried, taken out, and bounded. In the caller's transaction.

They stand on two shelves, ``dead`` and ``quarantined``, each with its bound in letters and in
bytes, so that a flood of one kind does not push out the other. What the bound drops is counted, by
shelf and by producer: nothing goes silently.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from signals.events import DiscardLetters, LetterSelection, ReplayLetters
from signals.features import rows
from signals.features.batch import DeadLetter, kind_of
from signals.features.operating import MAX_OFFSET
from signals.features.producers import KindCounts, ProducerCounts
from signals.settings import FeatureSettings

QUARANTINED: Final = "quarantined"
SHELVES: Final = ("dead", QUARANTINED)

COLUMNS: Final = (
    "bus_offset, target, producer, event_id, reason, detail, accepted_us, body, attempts, owns_id"
)
_OF_SHELF: Final = {
    "dead": "reason <> 'quarantined'",
    QUARANTINED: "reason = 'quarantined'",
}
_AT_ONCE: Final = 100
"""Letters dropped between two looks at how many bytes are left."""


def letter_of(row: tuple[Any, ...]) -> DeadLetter:
    """From the ``COLUMNS``, which are the fields in order."""
    values = dict(zip(DeadLetter.__struct_fields__, row, strict=True))
    return DeadLetter(**{**values, "owns_id": bool(values["owns_id"])})


def bury(db: sqlite3.Connection, letters: Sequence[DeadLetter], settings: FeatureSettings) -> None:
    """Add letters, then drop the oldest beyond the bounds."""
    if not letters:
        return
    marks = ", ".join("?" * len(DeadLetter.__struct_fields__))
    db.executemany(f"INSERT INTO dead_letters ({COLUMNS}) VALUES ({marks})", map(_row, letters))
    for shelf in SHELVES:
        sizes = [len(letter.body) for letter in letters if _shelf(letter.reason) == shelf]
        _count(db, shelf, letters=len(sizes), bytes_=sum(sizes))
        _bound(db, shelf, settings)


def take_out(db: sqlite3.Connection, offsets: Iterable[int]) -> None:
    """Remove the letters at these offsets, where there are any."""
    for offset in offsets:
        gone = db.execute(
            "DELETE FROM dead_letters WHERE bus_offset = ? RETURNING reason, LENGTH(body)",
            (offset,),
        ).fetchall()
        for reason, size in gone:
            _count(db, _shelf(reason), letters=-1, bytes_=-size)


class Chosen(Struct, frozen=True, kw_only=True):
    """Letters by offset; ``absent`` and ``left`` as in ``CommandOutcome``."""

    letters: Sequence[DeadLetter]
    absent: int = 0
    left: int = 0


def choose(
    db: sqlite3.Connection, command: ReplayLetters | DiscardLetters, *, limit: int
) -> Chosen:
    """Those that a command is about, ``limit`` at most."""
    offsets = sorted(set(command.offsets))
    some = [offset for offset in offsets[:limit] if 0 < offset <= MAX_OFFSET]
    found = {letter.offset: letter for letter in _at(db, some)}
    absent = min(len(offsets), limit) - len(found)
    left = max(0, len(offsets) - limit)
    if command.where is not None:
        matching, more = _selected(db, command.where, limit=limit - len(found))
        found |= {letter.offset: letter for letter in matching}
        left += more
    letters = [found[offset] for offset in sorted(found)]
    return Chosen(letters=letters, absent=absent, left=left)


def _at(db: sqlite3.Connection, offsets: Iterable[int]) -> list[DeadLetter]:
    select = f"SELECT {COLUMNS} FROM dead_letters WHERE bus_offset = ?"
    found = (db.execute(select, (offset,)).fetchone() for offset in offsets)
    return [letter_of(row) for row in found if row is not None]


def _selected(
    db: sqlite3.Connection, where: LetterSelection, *, limit: int
) -> tuple[list[DeadLetter], int]:
    """The oldest that meet ``where``, and how many more do."""
    named = {"reason": where.reason, "producer": where.producer, "target": where.target}
    given = {name: value for name, value in named.items() if value is not None}
    conditions = "".join(f" AND {name} = ?" for name in given)
    matching = f"FROM dead_letters WHERE bus_offset > ?{conditions}"
    after = min(max(where.after, 0), MAX_OFFSET)
    some = db.execute(
        f"SELECT {COLUMNS} {matching} ORDER BY bus_offset LIMIT ?",
        (after, *given.values(), max(0, min(where.limit, limit))),
    )
    letters = [letter_of(row) for row in some]
    last = letters[-1].offset if letters else after
    more = db.execute(f"SELECT COUNT(*) {matching}", (last, *given.values())).fetchone()[0]
    return letters, int(more)


def add_counts(db: sqlite3.Connection, more: Mapping[str, ProducerCounts]) -> None:
    """Add to what is counted of each producer."""
    for name, counts in more.items():
        select = "SELECT counts FROM producers WHERE producer = ?"
        before = db.execute(select, (name,)).fetchone()
        total = ProducerCounts() if before is None else rows.producer_decoder.decode(before[0])
        total.merge(counts)
        db.execute("INSERT OR REPLACE INTO producers VALUES (?, ?)", (name, rows.text(total)))


def bury_orphans(
    db: sqlite3.Connection, before_us: int, limit: int, settings: FeatureSettings
) -> int:
    """Make orphans accepted before then dead letters; how many."""
    oldest = "FROM orphans WHERE accepted_us < ? ORDER BY accepted_us, bus_offset LIMIT ?"
    gone = db.execute(f"SELECT bus_offset, accepted_us, signal {oldest}", (before_us, limit))
    letters = [rows.dead_orphan(*row) for row in gone.fetchall()]
    bury(db, letters, settings)
    db.executemany(
        "DELETE FROM orphans WHERE bus_offset = ?", [(letter.offset,) for letter in letters]
    )
    counts: defaultdict[str, ProducerCounts] = defaultdict(ProducerCounts)
    for letter in letters:
        of_producer = counts[letter.producer]
        of_kind: KindCounts = of_producer.kind(kind_of(letter))
        of_kind.expired += 1
        of_kind.dead += 1
        of_producer.dead[letter.reason] = of_producer.dead.get(letter.reason, 0) + 1
    add_counts(db, counts)
    return len(letters)


def expire(db: sqlite3.Connection, before_us: int, limit: int) -> int:
    """Drop the oldest letters, if they were accepted before then; how many. Counted as dropped."""
    oldest = "SELECT bus_offset FROM dead_letters ORDER BY bus_offset LIMIT ?"
    gone = db.execute(
        f"DELETE FROM dead_letters WHERE bus_offset IN ({oldest}) AND accepted_us < ?"
        " RETURNING producer, reason, LENGTH(body)",
        (limit, before_us),
    ).fetchall()
    for _, reason, size in gone:
        _count(db, _shelf(reason), letters=-1, bytes_=-size, dropped=1)
    dropped = Counter(producer for producer, _, _ in gone)
    add_counts(db, {name: ProducerCounts(dropped=count) for name, count in dropped.items()})
    return len(gone)


def _bound(db: sqlite3.Connection, shelf: str, settings: FeatureSettings) -> None:
    most = settings.quarantined_letters if shelf == QUARANTINED else settings.dead_letters
    dropped: Counter[str] = Counter()
    while True:
        kept, kept_bytes = db.execute(
            "SELECT letters, bytes FROM shelves WHERE shelf = ?", (shelf,)
        ).fetchone()
        over = kept - most
        if over <= 0 and (kept_bytes <= settings.letter_bytes or kept <= 1):
            break
        count = over if over > 0 else min(_AT_ONCE, max(1, kept // 10))
        dropped.update(_drop_oldest(db, shelf, count))
    add_counts(db, {name: ProducerCounts(dropped=count) for name, count in dropped.items()})


def _drop_oldest(db: sqlite3.Connection, shelf: str, count: int) -> list[str]:
    """The producers whose letters went, one each."""
    oldest = (
        f"SELECT bus_offset FROM dead_letters WHERE {_OF_SHELF[shelf]} ORDER BY bus_offset LIMIT ?"
    )
    gone = db.execute(
        f"DELETE FROM dead_letters WHERE bus_offset IN ({oldest}) RETURNING producer, LENGTH(body)",
        (count,),
    ).fetchall()
    _count(db, shelf, letters=-len(gone), bytes_=-sum(size for _, size in gone), dropped=len(gone))
    return [producer for producer, _ in gone]


def _count(
    db: sqlite3.Connection, shelf: str, *, letters: int, bytes_: int, dropped: int = 0
) -> None:
    if letters or bytes_ or dropped:
        db.execute(
            "UPDATE shelves SET letters = letters + ?, bytes = bytes + ?, dropped = dropped + ?"
            " WHERE shelf = ?",
            (letters, bytes_, dropped, shelf),
        )


def _shelf(reason: str) -> str:
    return QUARANTINED if reason == QUARANTINED else "dead"


def _row(letter: DeadLetter) -> tuple[Any, ...]:
    return tuple(getattr(letter, name) for name in DeadLetter.__struct_fields__)
