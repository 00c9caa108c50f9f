"""Prompt blocks kept for requests that begin with the same text.

The idea: a prompt is named by the hashes of its blocks, each hash covering all that precedes it, so
that equal hashes mean equal beginnings. A request shares the leading blocks that are here; when its
prompt is computed it leaves its other whole blocks here. A block in use is never dropped; of the
others the ``retention`` most recently used are kept. A prompt's last blocks go before its first,
without which they could not be found.

>>> cache = PrefixCache(retention=2)
>>> [cache.put(one, kv_blocks=32) for one in (11, 12, 13)]
[True, True, True]
>>> cache.leading((11, 12, 99)), cache.kv_blocks
(2, 96)
>>> cache.give_back([11, 12, 13]), cache.leading((11, 12, 13)), cache.kv_blocks
(32, 2, 64)

Why not a radix tree: with hashes that cover what precedes, a dictionary finds the same prefixes.
Reference: the block-hash design of vLLM's automatic prefix caching.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class PrefixCache:
    """See the module. ``kv_blocks``: what all of it takes of the KV pool."""

    def __init__(self, retention: int) -> None:
        self.retention = retention
        self.kv_blocks = 0
        self.lookups = 0
        self.hits = 0
        self._users: dict[int, int] = {}
        self._cost: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def leading(self, prefix: Sequence[int]) -> int:
        """How many leading blocks of a prompt are here."""
        for count, one in enumerate(prefix):
            if one not in self._users:
                return count
        return len(prefix)

    def take(self, hashes: Iterable[int]) -> None:
        """Use blocks that are here."""
        for one in hashes:
            self._users[one] += 1
            self._idle.pop(one, None)

    def put(self, one: int, *, kv_blocks: int) -> bool:
        """Leave a block here, in use by who leaves it; False when another did before."""
        if one in self._users:
            return False
        self._users[one] = 1
        self._cost[one] = kv_blocks
        self.kv_blocks += kv_blocks
        return True

    def give_back(self, hashes: Sequence[int]) -> int:
        """End the use of blocks; the KV blocks that became free, being beyond ``retention``."""
        for one in reversed(hashes):
            self._users[one] -= 1
            if self._users[one] == 0:
                self._idle[one] = None
        return self.trim()

    def trim(self) -> int:
        """Drop what is beyond ``retention``; the KV blocks that became free."""
        freed = 0
        while len(self._idle) > self.retention:
            freed += self.evict()
        return freed

    def evict(self) -> int:
        """Drop the block unused for longest; the KV blocks that became free, 0: all are in use."""
        if not self._idle:
            return 0
        one, _ = self._idle.popitem(last=False)
        del self._users[one]
        cost = self._cost.pop(one)
        self.kv_blocks -= cost
        return cost
