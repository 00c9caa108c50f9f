"""The last few ids, so that an answer can say "seen before". Best effort: features decides.

>>> recent = RecentIds(capacity=2)
>>> [recent.seen("shop", id) for id in "abaca"]
[False, False, True, False, False]
"""

from __future__ import annotations

from collections import OrderedDict


class RecentIds:
    """The ``capacity`` latest (producer, id) pairs, first in, first out, as 64-bit hashes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pairs: OrderedDict[int, None] = OrderedDict()

    def seen(self, producer: str, event_id: str) -> bool:
        """Whether it is remembered; it is from now on."""
        pair = hash((producer, event_id))
        if pair in self._pairs:
            return True
        self._pairs[pair] = None
        if len(self._pairs) > self._capacity:
            self._pairs.popitem(last=False)
        return False
