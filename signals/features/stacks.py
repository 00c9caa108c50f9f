"""Many Bloom filters of one size side by side, asked by what it takes to ask one.

Word i of a stack holds the i-th bit of up to 64 filters, so six look-ups and five ANDs say which of
the 64 a hash may be in (bit-slicing). Asked one by one, a filter costs 50 µs for 1,000 hashes,
and after some days there are thousands; a stack of 64 costs about as much as one.

>>> import numpy as np
>>> from signals.features.filters import probes
>>> stacks = Stacks(64)
>>> for name, hash_ in (("a", 5), ("b", -7), ("c", 5)):
...     filter_ = Filter(4)
...     filter_.add(np.array([hash_], np.int64))
...     stacks.add(name, filter_)
>>> stacks.perhaps(probes(np.array([6, 5], np.int64), 64))
{'a': [1], 'c': [1]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from signals.errors import Broken
from signals.features.filters import Filter, Probes

SLOTS: Final = 64


class Stacks:
    """Filters of so many ``bits``, by name. Memory: that of the filters, in steps of 64 of them."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._words: list[NDArray[np.uint64]] = []
        self._slots: dict[str, int] = {}
        self._names: list[str | None] = []

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    def names(self) -> Sequence[str]:
        """Whose filters are here."""
        return list(self._slots)

    def add(self, name: str, filter_: Filter) -> None:
        """Take a filter of this size. Raises ``Broken`` for a name that has one here."""
        if name in self._slots:
            raise Broken(f"there are two filters of {name}")
        if None not in self._names:
            self._words.append(np.zeros(self.bits, np.uint64))
            self._names += [None] * SLOTS
        slot = self._names.index(None)
        self._slots[name], self._names[slot] = slot, name
        self._words[slot // SLOTS][filter_.ones()] |= np.uint64(1 << slot % SLOTS)

    def remove(self, name: str) -> None:
        """Let go of a filter."""
        slot = self._slots.pop(name)
        self._names[slot] = None
        self._words[slot // SLOTS] &= ~np.uint64(1 << slot % SLOTS)
        while self._names and not any(self._names[-SLOTS:]):
            self._words.pop()
            del self._names[-SLOTS:]

    def perhaps(self, asked: Probes) -> dict[str, list[int]]:
        """Name -> places of the hashes that may have been added to its filter."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for first, words in enumerate(self._words):
            which = np.bitwise_and.reduce(words[asked.number])
            for place in np.flatnonzero(which).tolist():
                left = int(which[place])
                while left:
                    slot = first * SLOTS + (left & -left).bit_length() - 1
                    found[self._names[slot] or ""].append(place)
                    left &= left - 1
        return dict(found)
