"""Which (producer, id) were seen: a table per day of event time, dropped whole when it is over.

Days, not one table with deletes: a day goes by DROP in one step, and the live index stays small.
Events are accepted with times at most 8 days before their acceptance, so once the bus has been
read up to a moment, no later entry can bring an id from more than 8 days before that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from signals.events import MICROS
from signals.features.batch import DIGEST_BYTES, Event
from signals.features.schema import passing

DAY_US = 86_400 * MICROS
KEPT_DAYS = 9
"""8 days back from any moment touch 9 calendar days."""

_AT_ONCE = 500
_DISCARDED = b"\0"
"""After the digest of a dead letter that was discarded."""


def is_discarded(digest: bytes) -> bool:
    """Whether the event with this id was discarded as a dead letter."""
    return len(digest) > DIGEST_BYTES


class SeenDays:
    """The ``seen_<day>`` tables. Raises ``Unavailable``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._days: set[int] = set()
        self.look_again()

    def look_again(self) -> None:
        """Which tables there are: after a rollback, those made inside it are not."""
        named = self._db.execute("SELECT name FROM sqlite_master WHERE name GLOB 'seen_[0-9]*'")
        self._days = {int(name.removeprefix("seen_")) for (name,) in named}

    def find(self, identities: Iterable[bytes]) -> dict[bytes, bytes]:
        """identity -> digest of its body, for those that were seen on any day."""
        wanted = sorted(identities)
        found: dict[bytes, bytes] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            for day in self._days:
                select = f"SELECT identity, digest FROM seen_{day} WHERE identity IN ({marks})"
                with passing():
                    found.update(self._db.execute(select, some).fetchall())
        return found

    def add(self, events: Sequence[Event]) -> None:
        """Remember new events. Inside the caller's transaction."""
        by_day: dict[int, list[tuple[bytes, bytes]]] = {}
        for event in events:
            day = event.signal.time_us // DAY_US
            by_day.setdefault(day, []).extend(event.sightings())
        for day, pairs in by_day.items():
            if day not in self._days:
                self._db.execute(
                    f"CREATE TABLE IF NOT EXISTS seen_{day}"
                    " (identity BLOB NOT NULL UNIQUE, digest BLOB NOT NULL)"
                )
                self._days.add(day)
            self._db.executemany(f"INSERT INTO seen_{day} VALUES (?, ?)", pairs)

    def free(self, identities: Iterable[bytes]) -> None:
        """Forget these ids. Inside the caller's transaction."""
        for identity in identities:
            for day in self._days:
                self._db.execute(f"DELETE FROM seen_{day} WHERE identity = ?", (identity,))

    def discard(self, identities: Iterable[bytes]) -> None:
        """Remember that what these ids brought was discarded. Inside the caller's transaction."""
        for identity, digest in self.find(identities).items():
            marked = digest[:DIGEST_BYTES] + _DISCARDED
            for day in self._days:
                update = f"UPDATE seen_{day} SET digest = ? WHERE identity = ?"
                self._db.execute(update, (marked, identity))

    def over(self, accepted_us: int) -> list[int]:
        """Days that no entry accepted from now on can belong to."""
        return sorted(day for day in self._days if day < accepted_us // DAY_US - KEPT_DAYS)

    def drop(self, day: int) -> None:
        """Forget a day. Inside the caller's transaction."""
        self._db.execute(f"DROP TABLE seen_{day}")
        self._days.discard(day)
