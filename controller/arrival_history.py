"""What arrived in the last half hour, second by second: long enough to see a slow rhythm.

The feature store is asked for some minutes at each look; what it tells is added to what was told
before, so that the half hour is read once, at the start. Replicas of one second are added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from signals.events import MICROS
from signals.features.model import SecondRow

SPAN_S: Final = 1800
"""Four cycles of seven minutes: slower ones are declared (``trial.cycle_s``)."""

Counts = tuple[tuple[int, dict[str, int]], ...]


class ArrivalHistory:
    """Not thread-safe; the loop's thread owns it."""

    def __init__(self) -> None:
        self._arrivals: dict[int, dict[str, int]] = {}
        self._offered: dict[int, dict[str, int]] = {}
        self._until_us = 0

    def asks_from_us(self, now_us: int, *, least_s: int) -> int:
        """After when seconds are needed: at least so long back, at first and after a gap all.

        Whole seconds, so that none is known of one replica alone.
        """
        usual_us = now_us - least_s * MICROS
        from_us = usual_us if self._until_us > usual_us else now_us - SPAN_S * MICROS
        return from_us - from_us % MICROS - 1

    def take(self, seconds: Iterable[SecondRow], *, now_us: int) -> None:
        """Seconds as known now, those of before once more; what is too old is dropped."""
        new = list(seconds)
        for told in (self._arrivals, self._offered):
            for at in {second.to_us // MICROS for second in new}:
                told.pop(at, None)
            for at in [at for at in told if at < now_us // MICROS - SPAN_S]:
                del told[at]
        for second in new:
            at = second.to_us // MICROS
            _add(self._arrivals.setdefault(at, {}), second.arrivals)
            _add(self._offered.setdefault(at, {}), second.offered_tokens)
        self._until_us = now_us

    @property
    def arrivals(self) -> Counts:
        """(second, in µs, {intent: arrivals}), by time."""
        return _counts(self._arrivals)

    @property
    def offered(self) -> Counts:
        """The same of offered tokens."""
        return _counts(self._offered)


def _add(to: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count


def _counts(told: dict[int, dict[str, int]]) -> Counts:
    return tuple((at * MICROS, told[at]) for at in sorted(told))
