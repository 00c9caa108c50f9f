"""The last few ids, so that an answer can say "seen before". Best effort: features decides.

>>> recent = RecentIds(capacity=2)
>>> [recent.count_seen("shop", [id]) for id in "abaca"]
[0, 0, 1, 0, 1]
>>> recent.count_seen("shop", ["x", "x", "a"])
2
"""

from __future__ import annotations

from collections.abc import Iterable


class RecentIds:
    """At least the ``capacity`` latest (producer, id) pairs, at most twice as many and a post's, as
    hashes.

    Two generations: when the young one is full it becomes the old one, and the old one goes. A post
    is then looked up and remembered by two set operations, whatever its size.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: set[int] = set()
        self._old: set[int] = set()

    def count_seen(self, producer: str, event_ids: Iterable[str]) -> int:
        """How many are remembered, or come twice here; all are from now on."""
        pairs = [hash((producer, event_id)) for event_id in event_ids]
        fresh = set(pairs).difference(self._young, self._old)
        self._young |= fresh
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, set()
        return len(pairs) - len(fresh)
