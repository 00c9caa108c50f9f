"""Keys without an order, remembered for days at a cost that does not grow with their number.

One big index over random keys gets dearer as it grows: each new key lands on another page, and a
page is read, logged and written back for a few bytes (8 to 35 µs a key from 20 thousand to 2
million here). So a day's keys are kept in *parts* of bounded size, each small enough that a batch
shares its pages; only the newest part of a day is written to, and a Bloom filter per part, in
memory, says which parts a key can't be in.

::

    seen_20786_0   full, 65,536 keys   ┐ stack of filters: "not here" 999 times of 1,000
    seen_20786_1   full                ┘
    seen_20786_2   growing             ─ filter ─ made again from the part when it is opened
    seen_20787_0   growing             ─ filter ─

Memory: two bytes for each key kept. A day goes part by part, each in one piece.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable

import numpy as np

from signals.features.filters import Filter, Hashes, probes
from signals.features.stacks import Stacks

PART_KEYS = 65_536
"""Keys in a part before the next one is begun."""

_AT_ONCE = 500


class Part:
    """One table; ``filter`` while it grows, after that its filter is in the stacks."""

    __slots__ = ("day", "filter", "keys", "number", "table")

    def __init__(
        self, table: str, day: int, number: int, filter_: Filter | None, keys: int
    ) -> None:
        self.table = table
        self.day = day
        self.number = number
        self.filter = filter_
        self.keys = keys


class DayParts:
    """A multi-map: 64-bit hash -> byte strings, by day. ``name`` begins its tables' names.

    Different keys may share a hash: what tells them apart is the caller's, in the byte string. All
    writing is inside the caller's transaction; after one that was rolled back, ``reload``. Its
    table ``<name>_filters (part TEXT PRIMARY KEY, keys INTEGER, bits BLOB)`` must be there. Raises
    ``sqlite3.Error``.
    """

    def __init__(self, db: sqlite3.Connection, name: str, *, part_keys: int = PART_KEYS) -> None:
        self._db = db
        self._name = name
        self._part_keys = part_keys
        self._parts: dict[int, list[Part]] = {}
        self._full = Stacks(Filter(part_keys).bits)
        self.reload()

    def reload(self) -> None:
        """Take the parts as the file has them. What is known of those that are full stays: they
        don't change any more."""
        found = self._db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?",
            (f"{self._name}_[0-9]*_[0-9]*",),
        ).fetchall()
        stored = self._db.execute(f"SELECT part, keys FROM {self._name}_filters")
        full: dict[str, int] = dict(stored.fetchall())
        for table in self._full.names():
            if table not in full:
                self._full.remove(table)
        parts: defaultdict[int, list[Part]] = defaultdict(list)
        for (table,) in found:
            day, number = map(int, table.removeprefix(f"{self._name}_").split("_"))
            parts[day].append(self._opened(table, day, number, full.get(table)))
        self._parts = {
            day: sorted(of_day, key=lambda part: part.number) for day, of_day in parts.items()
        }

    def days(self) -> list[int]:
        """Days that have a part, oldest first."""
        return sorted(self._parts)

    def find(self, hashes: Collection[int]) -> dict[int, list[bytes]]:
        """Everything kept under each of these hashes, on any day."""
        wanted = np.fromiter(hashes, np.int64, len(hashes))
        found: defaultdict[int, list[bytes]] = defaultdict(list)
        if not wanted.size:
            return found
        asked = probes(wanted, self._full.bits)
        perhaps = self._full.perhaps(asked)
        for part in self._all():
            if part.filter is not None:
                perhaps[part.table] = part.filter.perhaps(asked).tolist()
        for table, places in perhaps.items():
            for hash_, value in self._rows(table, wanted[places].tolist()):
                found[hash_].append(value)
        return found

    def add(self, day: int, pairs: Collection[tuple[int, bytes]]) -> None:
        """Keep these pairs under a day; one that is there already stays once."""
        part, filter_ = self._growing(day)
        rows = sorted(pairs)
        self._db.executemany(f"INSERT OR IGNORE INTO {part.table} VALUES (?, ?)", rows)
        filter_.add(np.fromiter((hash_ for hash_, _ in rows), np.int64, len(rows)))
        part.keys += len(rows)
        if part.keys >= self._part_keys:
            self._finish(part, filter_)

    def replace(self, hash_: int, before: bytes, after: bytes) -> None:
        """Put one byte string in another's place, wherever it is kept."""
        for part in self._all():
            self._db.execute(
                f"UPDATE OR REPLACE {part.table} SET value = ? WHERE hash = ? AND value = ?",
                (after, hash_, before),
            )

    def remove(self, hash_: int, value: bytes) -> None:
        """Keep this pair no longer. Its part stays as full as it was, and its filter as it is."""
        for part in self._all():
            self._db.execute(
                f"DELETE FROM {part.table} WHERE hash = ? AND value = ?", (hash_, value)
            )

    def drop_oldest(self, day: int) -> int:
        """Drop the oldest part of a day, and the day with its last one; how many keys went, 1 at
        least."""
        part = self._parts[day][0]
        self._db.execute(f"DROP TABLE {part.table}")
        self._db.execute(f"DELETE FROM {self._name}_filters WHERE part = ?", (part.table,))
        if part.filter is None:
            self._full.remove(part.table)
        self._parts[day].remove(part)
        if not self._parts[day]:
            del self._parts[day]
        return max(1, part.keys)

    def _all(self) -> Iterable[Part]:
        for of_day in self._parts.values():
            yield from of_day

    def _rows(self, table: str, hashes: list[int]) -> Iterable[tuple[int, bytes]]:
        for start in range(0, len(hashes), _AT_ONCE):
            some = hashes[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            yield from self._db.execute(
                f"SELECT hash, value FROM {table} WHERE hash IN ({marks})", some
            )

    def _growing(self, day: int) -> tuple[Part, Filter]:
        """The part of a day that is written to, and its filter."""
        parts = self._parts.setdefault(day, [])
        if parts and parts[-1].filter is not None:
            return parts[-1], parts[-1].filter
        number = parts[-1].number + 1 if parts else 0
        table = f"{self._name}_{day}_{number}"
        self._db.execute(
            f"CREATE TABLE {table} (hash INTEGER NOT NULL, value BLOB NOT NULL,"
            " PRIMARY KEY (hash, value)) WITHOUT ROWID"
        )
        filter_ = Filter(self._part_keys)
        parts.append(Part(table, day, number, filter_, 0))
        return parts[-1], filter_

    def _finish(self, part: Part, filter_: Filter) -> None:
        """Keep the filter of a full part, so that a start need not read the keys again."""
        row = (part.table, part.keys, filter_.stored())
        self._db.execute(f"INSERT INTO {self._name}_filters VALUES (?, ?, ?)", row)
        self._full.add(part.table, filter_)
        part.filter = None

    def _opened(self, table: str, day: int, number: int, keys: int | None) -> Part:
        """``keys``: how many there are in a full part; None: it grows."""
        if keys is not None:
            if table not in self._full:
                select = f"SELECT bits FROM {self._name}_filters WHERE part = ?"
                ((bits,),) = self._db.execute(select, (table,)).fetchall()
                self._full.add(table, Filter(self._part_keys, bits))
            return Part(table, day, number, None, keys)
        hashes: Hashes = np.array(
            [hash_ for (hash_,) in self._db.execute(f"SELECT hash FROM {table}")], np.int64
        )
        filter_ = Filter(self._part_keys)
        filter_.add(hashes)
        return Part(table, day, number, filter_, len(hashes))
