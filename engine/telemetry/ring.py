"""The bounded ring between the engine and whoever posts its records.

Writing never waits and never fails: a full ring gives up its oldest record and counts it. Records
are numbered here, so a reader of the signals sees each loss as a gap in the numbers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice

from signals.events import Record


class TelemetryRing:
    """At most ``capacity`` records, oldest first. Thread-safe, one reader."""

    def __init__(self, capacity: int) -> None:
        self._records: deque[Record] = deque()
        self._capacity = capacity
        self._lock = threading.Lock()
        self._next_seq = 0
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Records lost to a full ring since the start."""
        return self._dropped

    def __len__(self) -> int:
        return len(self._records)

    def push(self, make: Callable[[int], Record]) -> None:
        """Append ``make(seq)``, where ``seq`` is the record's number."""
        with self._lock:
            self._records.append(make(self._next_seq))
            self._next_seq += 1
            if len(self._records) > self._capacity:
                self._records.popleft()
                self._dropped += 1

    def oldest(self, count: int) -> list[Record]:
        """Up to ``count`` of the oldest records; they stay until acknowledged."""
        with self._lock:
            return list(islice(self._records, count))

    def acknowledge(self, seq: int) -> None:
        """Forget the records numbered ``seq`` or less."""
        with self._lock:
            while self._records and self._records[0].seq <= seq:
                self._records.popleft()
