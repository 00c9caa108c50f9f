"""What arrives, counted over a sliding window: the exogenous variables that laws read.

``arrivals`` is the number of requests of a class in the last ``window_s``. ``offered_tokens_per_s``
is the work they brought: prompt tokens plus the ``max_tokens`` they asked for, divided by
``window_s``. Both count what was *offered*, so a request refused by the full queue counts too, and
nothing the engine does (its queue, its speed) feeds back into them.

The idea: keep running totals with the time at which each was reached. The count in a window is the
total now less the total at the window's start, found by bisection. Arrivals closer together than
``resolution_s`` share a mark, so a class needs at most about ``horizon_s / resolution_s`` marks.

>>> meter = ArrivalMeter(classes=("interactive", "batch"))
>>> meter.note("interactive", tokens=100, now_s=10.0)
>>> meter.read("arrivals", "interactive", window_s=2.0, now_s=11.9)
1.0
>>> meter.read("arrivals", "interactive", window_s=2.0, now_s=12.0)
0.0
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable

from policies.laws import MAX_WINDOW_S, Variable


class RunningTotals:
    """Times and running totals of one class, the oldest forgotten after ``horizon_s``."""

    def __init__(self, *, horizon_s: float, resolution_s: float) -> None:
        self._horizon_s = horizon_s
        self._resolution_s = resolution_s
        self._times = array("d")
        self._counts = array("q")
        self._tokens = array("q")
        self._head = 0
        self._forgotten = (0, 0)

    def add(self, tokens: int, now_s: float) -> None:
        """Count one arrival. ``now_s`` never goes back."""
        count, total = self.totals()
        if len(self._times) > self._head and now_s - self._times[-1] < self._resolution_s:
            self._counts[-1], self._tokens[-1] = count + 1, total + tokens
            return
        self._times.append(now_s)
        self._counts.append(count + 1)
        self._tokens.append(total + tokens)
        self._forget(now_s - self._horizon_s)

    def totals(self) -> tuple[int, int]:
        """Arrivals and tokens since the start."""
        return self._at(len(self._times))

    def within(self, window_s: float, now_s: float) -> tuple[int, int]:
        """Arrivals and tokens later than ``now_s - window_s``."""
        start = bisect_right(self._times, now_s - window_s, lo=self._head)
        (count, tokens), (count_before, tokens_before) = self.totals(), self._at(start)
        return count - count_before, tokens - tokens_before

    def next_fall_s(self, window_s: float, now_s: float) -> float:
        """When the oldest arrival later than ``now_s - window_s`` leaves the window; inf: none."""
        oldest = bisect_right(self._times, now_s - window_s, lo=self._head)
        return self._times[oldest] + window_s if oldest < len(self._times) else math.inf

    @property
    def marks(self) -> int:
        """How many marks are held; bounded by ``2 * horizon_s / resolution_s + 2``."""
        return len(self._times)

    def _at(self, index: int) -> tuple[int, int]:
        if index == self._head:
            return self._forgotten
        return self._counts[index - 1], self._tokens[index - 1]

    def _forget(self, before_s: float) -> None:
        head = bisect_right(self._times, before_s, lo=self._head)
        self._forgotten = self._at(head)
        self._head = head
        if head * 2 > len(self._times):
            del self._times[:head], self._counts[:head], self._tokens[:head]
            self._head = 0


class ArrivalMeter:
    """Sliding-window load of each class. Not thread-safe: its owner holds the lock."""

    def __init__(
        self,
        classes: Iterable[str],
        *,
        horizon_s: float = MAX_WINDOW_S,
        resolution_s: float = 0.01,
    ) -> None:
        self._totals = {
            name: RunningTotals(horizon_s=horizon_s, resolution_s=resolution_s) for name in classes
        }

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes a law may name."""
        return tuple(self._totals)

    def note(self, class_: str, *, tokens: int, now_s: float) -> None:
        """A request of this class arrived, asking for ``tokens`` (prompt plus ``max_tokens``)."""
        self._totals[class_].add(tokens, now_s)

    def read(
        self, variable: Variable, class_: str | None, *, window_s: float, now_s: float
    ) -> float:
        """The variable over the last ``window_s`` seconds; ``class_`` None sums all classes."""
        chosen = self._totals.values() if class_ is None else (self._totals[class_],)
        seen = [totals.within(window_s, now_s) for totals in chosen]
        if variable == "arrivals":
            return float(sum(count for count, _ in seen))
        return sum(tokens for _, tokens in seen) / window_s

    def next_fall_s(self, class_: str | None, *, window_s: float, now_s: float) -> float:
        """Until when a variable cannot fall, whatever arrives; inf: it stands at 0."""
        chosen = self._totals.values() if class_ is None else (self._totals[class_],)
        return min(totals.next_fall_s(window_s, now_s) for totals in chosen)
