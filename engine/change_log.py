"""The engine's own record of what changed its settings, when and why. Bounded; oldest go first."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from policies.runtime_config import LOG_ENTRIES, Change


class ChangeLog:
    """A ring of the last ``LOG_ENTRIES`` changes, numbered from 0 without a gap.

    Not thread-safe: its owner holds the lock.
    """

    def __init__(self) -> None:
        self._entries: deque[Change] = deque(maxlen=LOG_ENTRIES)
        self._next = 0

    @property
    def next_seq(self) -> int:
        """The number that the next change must carry."""
        return self._next

    @property
    def first_seq(self) -> int:
        """The lowest number still held; equals ``next_seq`` when there is none."""
        return self._next - len(self._entries)

    def append(self, change: Change) -> None:
        """Add one change; the oldest leaves when the ring is full."""
        self._entries.append(change)
        self._next += 1

    def since(self, seq: int) -> tuple[Change, ...]:
        """The changes numbered ``seq`` or more that are still held, oldest first."""
        newest_first = takewhile(lambda change: change.seq >= seq, reversed(self._entries))
        return tuple(newest_first)[::-1]
