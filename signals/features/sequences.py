"""Which numbers of an engine's record stream have been seen: exact dedupe, and the gaps.

A replica numbers its records from its start, also those it then loses, so a missing number is a
lost or late record and its neighbours say when. Seen numbers are kept as ranges: one, normally.

>>> seen = Sequence()
>>> [seen.add(number, number * 1_000_000, limit=10) for number in (1, 2, 4, 2)]
['new', 'new', 'new', 'duplicate']
>>> [(hole.from_us, hole.to_us, hole.missing) for hole in seen.holes()]
[(2000000, 4000000, 1)]
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from operator import attrgetter
from typing import Literal

from msgspec import Struct, field

Novelty = Literal["new", "duplicate", "forgotten"]


class Range(Struct):
    """Numbers ``low`` to ``high``, all seen; event times of the two."""

    low: int
    high: int
    low_us: int
    high_us: int


class Hole(Struct, frozen=True):
    """Event time in which ``missing`` records are unaccounted for."""

    from_us: int
    to_us: int
    missing: int


class Sequence(Struct):
    """The seen numbers of one incarnation, in rising, disjoint, non-adjacent ranges.

    ``floor``: at and below it too much was missing to remember what; ``given_up`` says when that
    was and how much is missing there for good.
    """

    ranges: list[Range] = field(default_factory=list)
    floor: int = -1
    given_up: Hole | None = None

    def add(self, number: int, at_us: int, *, limit: int) -> Novelty:
        """Note a number and its event time. Beyond ``limit`` ranges the lowest gap is given up."""
        if number <= self.floor:
            return "forgotten"
        index = bisect_right(self.ranges, number, key=attrgetter("low"))
        below = self.ranges[index - 1] if index else None
        if below is not None and number <= below.high:
            return "duplicate"
        self._insert(index, number, at_us)
        if len(self.ranges) > limit:
            self._give_up_lowest()
        return "new"

    def holes(self) -> list[Hole]:
        """The gaps between ranges, oldest first."""
        between = [_between(before, after) for before, after in pairwise(self.ranges)]
        return [self.given_up, *between] if self.given_up else between

    def _insert(self, index: int, number: int, at_us: int) -> None:
        ranges = self.ranges
        joins_below = index > 0 and ranges[index - 1].high == number - 1
        joins_above = index < len(ranges) and ranges[index].low == number + 1
        if joins_below and joins_above:
            ranges[index - 1].high = ranges[index].high
            ranges[index - 1].high_us = ranges[index].high_us
            del ranges[index]
        elif joins_below:
            ranges[index - 1].high, ranges[index - 1].high_us = number, at_us
        elif joins_above:
            ranges[index].low, ranges[index].low_us = number, at_us
        else:
            ranges.insert(index, Range(number, number, at_us, at_us))

    def _give_up_lowest(self) -> None:
        lost = _between(self.ranges[0], self.ranges[1])
        if self.given_up is not None:
            lost = Hole(
                min(lost.from_us, self.given_up.from_us),
                max(lost.to_us, self.given_up.to_us),
                lost.missing + self.given_up.missing,
            )
        del self.ranges[0]
        self.floor, self.given_up = self.ranges[0].low - 1, lost


def _between(before: Range, after: Range) -> Hole:
    return Hole(
        min(before.high_us, after.low_us),
        max(before.high_us, after.low_us),
        after.low - before.high - 1,
    )
