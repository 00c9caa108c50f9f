"""Each producer's accepted events per second, by a token bucket that may go into debt.

A bucket fills at ``rate_per_s`` up to one second's worth. A post passes when the bucket holds a
token for each of its events, or is full; a post larger than the bucket leaves a debt that is
waited for before the next. So every post passes sooner or later, and the rate holds over time.
Not a window counter: it lets through twice the rate around its edge.

>>> rates = Rates()
>>> rates.take("shop", 10.0, events=25, now_us=0)
>>> rates.take("shop", 10.0, events=1, now_us=1_000_000)
Traceback (most recent call last):
signals.ingest.rates.TooFast: more than 10 events per second
>>> rates.take("shop", 10.0, events=1, now_us=1_600_000)
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from signals.errors import Rejected
from signals.events import MICROS

MAX_BUCKETS: Final = 10_000
"""Producers remembered; the one that posted longest ago is forgotten, with its debt."""

SET_BACK_US: Final = 10 * MICROS
"""A clock that is so far behind was set back, and time is counted from there; a little behind is
only a post that was begun earlier."""


class TooFast(Rejected):
    """More events than the key's rate. Nothing was taken; the same post passes later."""

    status = 429

    def __init__(self, rate_per_s: float, retry_after_s: float) -> None:
        super().__init__(
            f"more than {rate_per_s:g} events per second", field="rate_per_s", allowed=rate_per_s
        )
        self.retry_after_s = retry_after_s


class _Bucket:
    __slots__ = ("at_us", "level")

    def __init__(self, level: float, at_us: int) -> None:
        self.level = level
        self.at_us = at_us


class Rates:
    """The buckets of all producers. One thread's."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def check(self, producer: str, rate_per_s: float, *, events: int, now_us: int) -> None:
        """Raises ``TooFast`` when ``take`` would."""
        bucket = self._filled(producer, rate_per_s, now_us)
        short = min(events, _capacity(rate_per_s)) - bucket.level
        if short > 0:
            raise TooFast(rate_per_s, short / rate_per_s)

    def take(self, producer: str, rate_per_s: float, *, events: int, now_us: int) -> None:
        """Spend a token for each event. Raises ``TooFast``, and then spends nothing."""
        self.check(producer, rate_per_s, events=events, now_us=now_us)
        self._buckets[producer].level -= events

    def give_back(self, producer: str, events: int) -> None:
        """Events that were not taken after all."""
        bucket = self._buckets.get(producer)
        if bucket is not None:
            bucket.level += events

    def _filled(self, producer: str, rate_per_s: float, now_us: int) -> _Bucket:
        capacity = _capacity(rate_per_s)
        bucket = self._buckets.get(producer)
        if bucket is None:
            bucket = self._buckets[producer] = _Bucket(capacity, now_us)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(producer)
        passed_us = now_us - bucket.at_us
        bucket.level = min(capacity, bucket.level + max(0, passed_us) * rate_per_s / MICROS)
        if passed_us > 0 or passed_us < -SET_BACK_US:
            bucket.at_us = now_us
        return bucket


def _capacity(rate_per_s: float) -> float:
    return max(1.0, rate_per_s)
