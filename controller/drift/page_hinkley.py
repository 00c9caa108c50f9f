"""Page–Hinkley: the sum of deviations from the mean, beyond what is tolerated, in both directions.

::

    up   ← max(0, up   + x − mean − δ)        drifted:  up or down > λ
    down ← max(0, down − x + mean − δ)

δ is half of the smallest shift worth an alarm, λ how much evidence one takes; both in deviations.
No value counts for more than ``most`` deviations: a single bad block is none.
The mean is that of the values so far, each forgotten at a rate of 1 ÷ ``memory``, and not pulled
along by values that speak for a drift. After an alarm it stays one for ``hold`` values; then the
sums begin anew around the level of these.

>>> detector = PageHinkley()
>>> for x in [0.3, -0.2, 0.1, -0.4] * 10:
...     detector = detector.update(x)
>>> detector.drifted
False
>>> for x in [3.3, 2.8, 3.1, 2.6]:
...     detector = detector.update(x)
>>> detector.drifted
True

Page, *Continuous Inspection Schemes*, 1954; Hinkley, 1971. Why not a limit on each value
(Shewhart): it sees a shift of one deviation one time in forty. Why not ADWIN here too: see
``two_window``.
"""

from __future__ import annotations

import math
from typing import Self

import msgspec
from msgspec import Struct


class PageHinkley(Struct, frozen=True, kw_only=True):
    """The sums, the mean they are about, and how many values of an alarm are left."""

    delta: float = 0.75
    limit: float = 8.0
    most: float = 3.0
    memory: float = 240.0
    warm: int = 20
    hold: int = 10
    n: int = 0
    mean: float = 0.0
    up: float = 0.0
    down: float = 0.0
    left: int = 0
    level: float = 0.0

    @property
    def drifted(self) -> bool:
        """Whether an alarm stands."""
        return self.left > 0

    def update(self, x: float) -> Self:
        """One more value; what is not finite is left out."""
        if not math.isfinite(x):
            return self
        return self._alarmed(x) if self.left else self._watched(x)

    def _watched(self, x: float) -> Self:
        n = self.n + 1
        off = max(-self.most, min(self.most, x - self.mean))
        up, down = max(0.0, self.up + off - self.delta), max(0.0, self.down - off - self.delta)
        if n <= self.warm:
            up = down = 0.0
        if max(up, down) > self.limit:
            return msgspec.structs.replace(self, n=n, up=0.0, down=0.0, left=self.hold, level=x)
        suspect = n > self.warm and max(up, down) > self.limit / 2
        rate = 0.0 if suspect else max(1.0 / n, 1.0 / self.memory)
        return msgspec.structs.replace(self, n=n, mean=self.mean + rate * off, up=up, down=down)

    def _alarmed(self, x: float) -> Self:
        """During an alarm the new level is learned; with its end it is the mean."""
        seen = self.hold - self.left + 2
        level = self.level + (x - self.level) / seen
        if self.left > 1:
            return msgspec.structs.replace(self, n=self.n + 1, left=self.left - 1, level=level)
        return msgspec.structs.replace(self, n=self.warm, left=0, mean=level, level=0.0)
