"""The bounded ring between the engine and whoever posts its records.

Writing never waits and never fails: a full ring gives up its oldest record and counts it. Records
are numbered here, so a reader of the signals sees each loss as a gap in the numbers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from signals.events import Record


class TelemetryRing:
    """At most ``capacity`` records, and one batch that the reader has out. Thread-safe.

    The one reader takes a batch, and then either says it is ``done`` or gives it back.
    """

    def __init__(self, capacity: int) -> None:
        self._records: deque[Record] = deque()
        self._out: list[Record] = []
        self._capacity = capacity
        self._lock = threading.Lock()
        self._next_seq = 0
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Records lost to a full ring since the start."""
        return self._dropped

    def __len__(self) -> int:
        with self._lock:
            return len(self._records) + len(self._out)

    def push(self, make: Callable[[int], Record]) -> None:
        """Append ``make(seq)``, where ``seq`` is the record's number."""
        with self._lock:
            self._records.append(make(self._next_seq))
            self._next_seq += 1
            self._trim()

    def take(self, count: int) -> list[Record]:
        """Up to ``count`` of the oldest records, which are then out with the reader."""
        with self._lock:
            taken = min(count, len(self._records))
            self._out = [self._records.popleft() for _ in range(taken)]
            return self._out

    def done(self) -> None:
        """The batch that is out has arrived: forget it."""
        with self._lock:
            self._out = []

    def give_back(self) -> None:
        """The batch that is out did not arrive: it is the oldest again."""
        with self._lock:
            self._records.extendleft(reversed(self._out))
            self._out = []
            self._trim()

    def _trim(self) -> None:
        while len(self._records) > self._capacity:
            self._records.popleft()
            self._dropped += 1
