"""Somebody's traces let go of in ``features.db``, in the caller's transaction.

====================  ===========================================================================
a request row         keeps its times and counts, under an id that leads nowhere; its other ids and
                      its error's words go. So trials that it was part of are judged as before
outcomes of it        go, and the values that a later one would be added to
orphans               go
dead letters          go that name it, or the request; of one that can't be read, if it holds the id
====================  ===========================================================================

Sums in windows stay: they are of nobody. So do the digests by which repeated events are known (128
bits of BLAKE2b, of an event's own id and of its body), or the same event would be stored again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from signals.codec import Malformed, decode
from signals.events import Arrived, ErasedBy, Finished, Named, NamedRequest, Signal
from signals.features import rows
from signals.features.change import Erasure
from signals.features.letters import add_counts, take_out
from signals.features.operating import CommandOutcome
from signals.features.producers import ProducerCounts

ERASED: Final = "erased"
_COLUMN: Final[dict[ErasedBy, str]] = {
    "request": "request_id",
    "session": "session_id",
    "external": "external_id",
}


class Erased(Struct, frozen=True, kw_only=True):
    """How many rows were anonymised or removed, and how many more there are."""

    done: int
    left: int

    def told(self, outcome: CommandOutcome) -> CommandOutcome:
        """The outcome of the command, with these counts."""
        return msgspec.structs.replace(outcome, done=self.done, left=self.left)


def erase(db: sqlite3.Connection, wanted: Erasure, *, limit: int) -> Erased:
    """Let go of up to ``limit`` requests, orphans and letters each. Raises ``sqlite3.Error``."""
    requests, more = _some(db, "requests", "request_id", wanted, limit)
    outcomes = sum(
        _anonymise(db, request_id, f"{wanted.target}.{ERASED}-{wanted.offset}-{number}")
        for number, request_id in enumerate(requests)
    )
    orphans, more_orphans = _some(db, "orphans", "bus_offset", wanted, limit)
    _remove_orphans(db, orphans)
    letters = _letters(db, wanted, {str(each) for each in requests})
    _remove_letters(db, letters[:limit])
    return Erased(
        done=len(requests) + outcomes + len(orphans) + len(letters[:limit]),
        left=more + more_orphans + len(letters[limit:]),
    )


def _some(
    db: sqlite3.Connection, table: str, key: str, wanted: Erasure, limit: int
) -> tuple[list[str | int], int]:
    """Keys of rows that name one of the ids, and how many more there are."""
    column = _COLUMN[wanted.by]
    marks = ", ".join("?" * len(wanted.ids))
    matching = f"FROM {table} WHERE target = ? AND {column} IN ({marks})"
    named = (wanted.target, *wanted.ids)
    found = [key for (key,) in db.execute(f"SELECT {key} {matching} LIMIT ?", (*named, limit))]
    ((count,),) = db.execute(f"SELECT COUNT(*) {matching}", named).fetchall()
    return found, int(count) - len(found)


def _anonymise(db: sqlite3.Connection, request_id: str | int, nobody: str) -> int:
    """Give a row an id that leads nowhere; how many outcomes of it went."""
    ((stored,),) = db.execute("SELECT row FROM requests WHERE request_id = ?", (request_id,))
    row = msgspec.structs.replace(
        rows.request_decoder.decode(stored),
        request_id=nobody,
        external_id=None,
        session_id=None,
        error=None,
    )
    db.execute(
        "UPDATE requests SET request_id = ?, external_id = NULL, session_id = NULL, row = ?"
        " WHERE request_id = ?",
        (nobody, rows.text(row), request_id),
    )
    db.execute("DELETE FROM outcome_values WHERE request_id = ?", (request_id,))
    return db.execute("DELETE FROM outcomes WHERE request_id = ?", (request_id,)).rowcount


def _remove_orphans(db: sqlite3.Connection, offsets: Sequence[str | int]) -> None:
    """They count as dead letters that were discarded: every event stays in exactly one place."""
    counts: dict[str, ProducerCounts] = {}
    for offset in offsets:
        delete = "DELETE FROM orphans WHERE bus_offset = ? RETURNING producer, signal"
        for producer, stored in db.execute(delete, (offset,)).fetchall():
            of_producer = counts.setdefault(producer, ProducerCounts())
            of_producer.kind(rows.signal_decoder.decode(stored).kind).dead += 1
            of_producer.dead[ERASED] = of_producer.dead.get(ERASED, 0) + 1
            of_producer.discarded += 1
    add_counts(db, counts)


def _remove_letters(db: sqlite3.Connection, letters: Sequence[tuple[int, str]]) -> None:
    take_out(db, [offset for offset, _ in letters])
    discarded = Counter(producer for _, producer in letters)
    add_counts(db, {name: ProducerCounts(discarded=many) for name, many in discarded.items()})


def _letters(db: sqlite3.Connection, wanted: Erasure, requests: set[str]) -> list[tuple[int, str]]:
    """Offset and producer of each letter that is about it. Each body is looked into, once."""
    kept = db.execute(
        "SELECT bus_offset, producer, body FROM dead_letters WHERE target = ?", (wanted.target,)
    )
    return [(offset, name) for offset, name, body in kept if _about(body, wanted, requests)]


def _about(body: bytes, wanted: Erasure, requests: set[str]) -> bool:
    try:
        signal = decode(body)
    except Malformed:
        return any(id_.encode() in body for id_ in wanted.ids)
    named = _named(signal)
    column = _COLUMN[wanted.by]
    return any(getattr(each, column) in wanted.ids or each.request_id in requests for each in named)


def _named(signal: Signal) -> Sequence[Signal | Arrived | Finished | NamedRequest]:
    """What in it can name a request."""
    if isinstance(signal.data, Arrived | Finished):
        return (signal.data,)
    if isinstance(signal.data, Named):
        return signal.data.requests
    return (signal,)
