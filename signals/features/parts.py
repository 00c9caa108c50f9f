"""Keys without an order, remembered for days at a cost that does not grow with their number.

One big index over random keys gets dearer as it grows: each new key lands on another page, and a
page is read, logged and written back for a few bytes (8 to 35 µs a key from 20 thousand to 2
million here). So a day's keys are kept in *parts* of bounded size, each small enough that a batch
shares its pages; only the newest part of a day is written to, and a Bloom filter per part, in
memory, says which parts a key can't be in.

::

    seen_20786_0   full, 65,536 keys   ─ filter ─ "not here" 999 times of 1,000
    seen_20786_1   full                ─ filter ─
    seen_20786_2   growing             ─ filter ─ made again from the part when it is opened
    seen_20787_0   growing

Memory: two bytes for each key kept. A day goes part by part, each in one piece.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable

import numpy as np

from signals.features.filters import Filter, Hashes, Probes, probes

PART_KEYS = 65_536
"""Keys in a part before the next one is begun."""

_AT_ONCE = 500


class Part:
    """One table and its filter."""

    __slots__ = ("day", "filter", "keys", "number", "table")

    def __init__(self, table: str, day: int, number: int, filter_: Filter, keys: int) -> None:
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
        self.reload()

    def reload(self) -> None:
        """Take the parts, and the filters of those that are full, as the file has them."""
        found = self._db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?",
            (f"{self._name}_[0-9]*_[0-9]*",),
        ).fetchall()
        parts: defaultdict[int, list[Part]] = defaultdict(list)
        for (table,) in found:
            day, number = map(int, table.removeprefix(f"{self._name}_").split("_"))
            parts[day].append(self._opened(table, day, number))
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
        asked: dict[int, Probes] = {}
        for part in self._all():
            bits = part.filter.bits
            if bits not in asked:
                asked[bits] = probes(wanted, bits)
            perhaps = wanted[part.filter.perhaps(asked[bits])]
            for hash_, value in self._rows(part, perhaps.tolist()):
                found[hash_].append(value)
        return found

    def add(self, day: int, pairs: Collection[tuple[int, bytes]]) -> None:
        """Keep these pairs under a day; one that is there already stays once."""
        part = self._growing(day)
        rows = sorted(pairs)
        self._db.executemany(f"INSERT OR IGNORE INTO {part.table} VALUES (?, ?)", rows)
        part.filter.add(np.fromiter((hash_ for hash_, _ in rows), np.int64, len(rows)))
        part.keys += len(rows)
        if part.keys >= self._part_keys:
            self._finish(part)

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
        self._parts[day].remove(part)
        if not self._parts[day]:
            del self._parts[day]
        return max(1, part.keys)

    def _all(self) -> Iterable[Part]:
        """Newest day first: most of what is asked for twice came a moment ago."""
        for day in sorted(self._parts, reverse=True):
            yield from reversed(self._parts[day])

    def _rows(self, part: Part, hashes: list[int]) -> Iterable[tuple[int, bytes]]:
        for start in range(0, len(hashes), _AT_ONCE):
            some = hashes[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            yield from self._db.execute(
                f"SELECT hash, value FROM {part.table} WHERE hash IN ({marks})", some
            )

    def _growing(self, day: int) -> Part:
        parts = self._parts.setdefault(day, [])
        if not parts or parts[-1].keys >= self._part_keys:
            number = parts[-1].number + 1 if parts else 0
            table = f"{self._name}_{day}_{number}"
            self._db.execute(
                f"CREATE TABLE {table} (hash INTEGER NOT NULL, value BLOB NOT NULL,"
                " PRIMARY KEY (hash, value)) WITHOUT ROWID"
            )
            parts.append(Part(table, day, number, Filter(self._part_keys), 0))
        return parts[-1]

    def _finish(self, part: Part) -> None:
        """Keep the filter of a full part, so that a start need not read the keys again."""
        row = (part.table, part.keys, part.filter.stored())
        self._db.execute(f"INSERT INTO {self._name}_filters VALUES (?, ?, ?)", row)

    def _opened(self, table: str, day: int, number: int) -> Part:
        stored = self._db.execute(
            f"SELECT keys, bits FROM {self._name}_filters WHERE part = ?", (table,)
        ).fetchone()
        if stored is not None:
            keys, bits = stored
            return Part(table, day, number, Filter(self._part_keys, bits), keys)
        hashes: Hashes = np.array(
            [hash_ for (hash_,) in self._db.execute(f"SELECT hash FROM {table}")], np.int64
        )
        filter_ = Filter(self._part_keys)
        filter_.add(hashes)
        return Part(table, day, number, filter_, len(hashes))
