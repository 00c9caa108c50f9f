"""Which (producer, id) were seen, by day of event time (``signals.features.parts``).

Events are accepted with times at most 8 days before their acceptance, so once the bus has been
read up to a moment, no later entry can bring an id from more than 8 days before that, and the day
goes.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from signals.events import MICROS
from signals.features.batch import DIGEST_BYTES, Event
from signals.features.parts import DayParts
from signals.features.schema import passing, transaction

DAY_US = 86_400 * MICROS
KEPT_DAYS = 9
"""8 days back from any moment touch 9 calendar days."""

NAME = "seen"
_HASH_BYTES = 8
_AT_ONCE = 5_000
_DISCARDED = b"\0"
"""After the digest of a dead letter that was discarded."""


def is_discarded(digest: bytes) -> bool:
    """Whether the event with this id was discarded as a dead letter."""
    return len(digest) > DIGEST_BYTES


class SeenDays:
    """identity -> digest. Half of an identity is its hash in the parts; what is kept under it is
    the other half and the digest. Raises ``Unavailable``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._parts = DayParts(db, NAME)
        _take_over(db, self._parts)

    def look_again(self) -> None:
        """After a rollback: what was made inside it is not there."""
        self._parts.reload()

    def find(self, identities: Iterable[bytes]) -> dict[bytes, bytes]:
        """identity -> digest of its body, for those that were seen on any day."""
        return {identity: value[_HASH_BYTES:] for identity, _, value in self._kept(identities)}

    def add(self, events: Sequence[Event]) -> None:
        """Remember new events. Inside the caller's transaction."""
        by_day: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for event in events:
            by_day[event.signal.time_us // DAY_US].extend(
                (_hash(identity), identity[_HASH_BYTES:] + digest)
                for identity, digest in event.sightings
            )
        for day, pairs in by_day.items():
            self._parts.add(day, pairs)

    def free(self, identities: Iterable[bytes]) -> None:
        """Forget these ids. Inside the caller's transaction."""
        for _, hash_, value in list(self._kept(identities)):
            self._parts.remove(hash_, value)

    def discard(self, identities: Iterable[bytes]) -> None:
        """Remember that what these ids brought was discarded. Inside the caller's transaction."""
        for _, hash_, value in list(self._kept(identities)):
            self._parts.replace(hash_, value, value[: _HASH_BYTES + DIGEST_BYTES] + _DISCARDED)

    def over(self, accepted_us: int) -> list[int]:
        """Days that no entry accepted from now on can belong to."""
        return [day for day in self._parts.days() if day < accepted_us // DAY_US - KEPT_DAYS]

    def forget_some(self, day: int) -> int:
        """Forget one part of a day, which is gone with the last; how many ids."""
        return self._parts.drop_oldest(day)

    def _kept(self, identities: Iterable[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
        """(identity, its hash, what is kept) of those that were seen."""
        by_hash: defaultdict[int, list[bytes]] = defaultdict(list)
        for identity in identities:
            by_hash[_hash(identity)].append(identity)
        with passing():
            found = self._parts.find(by_hash)
        for hash_, values in found.items():
            rest = {value[:_HASH_BYTES]: value for value in values}
            for identity in by_hash[hash_]:
                if identity[_HASH_BYTES:] in rest:
                    yield identity, hash_, rest[identity[_HASH_BYTES:]]


def _take_over(db: sqlite3.Connection, parts: DayParts) -> None:
    """Put what an older version kept, in one table a day, into parts."""
    older = db.execute(
        "SELECT name FROM sqlite_master WHERE name GLOB 'seen_[0-9]*' AND name NOT GLOB 'seen_*_*'"
    )
    for (table,) in older.fetchall():
        with transaction(db):
            kept = db.execute(f"SELECT identity, digest FROM {table}")
            while some := kept.fetchmany(_AT_ONCE):
                pairs = [(_hash(i), i[_HASH_BYTES:] + digest) for i, digest in some]
                parts.add(int(table.removeprefix("seen_")), pairs)
            db.execute(f"DROP TABLE {table}")


def _hash(identity: bytes) -> int:
    return int.from_bytes(identity[:_HASH_BYTES], signed=True)
