"""Two windows: the last values against those before, at every split, as ADWIN does.

A window of the last ``length`` values is kept. At each split with at least ``least`` values on both
sides the means are compared; the deviation of their difference is taken from the values themselves,
within the two sides, and widened for autocorrelation (r = lag-1 correlation)::

    z = (mean_new − mean_old) / (s · √(1/n_old + 1/n_new) · √((1 + r)/(1 − r)))

drifted: |z| > ``limit`` and the means are ``smallest`` deviations apart. Then what is older than
the split is forgotten, and the alarm stands for ``hold`` values.

>>> detector = TwoWindow()
>>> for x in [0.3, -0.2, 0.1, -0.4, 0.2, 0.0] * 8:
...     detector = detector.update(x)
>>> detector.drifted
False
>>> for x in [3.3, 2.8, 3.1, 2.6, 3.0, 2.9]:
...     detector = detector.update(x)
>>> detector.drifted, detector.direction
(True, 'up')

Bifet & Gavaldà, *Learning from Time-Changing Data with Adaptive Windowing*, 2007. Theirs keeps
exponential histograms of any length and bounds independent values; this one keeps a short window,
for a drift is over when the level has been the same that long, and its bound knows that residuals
of neighbouring blocks are alike.
"""

from __future__ import annotations

import math
from typing import Literal, Self

import msgspec
import numpy as np
from msgspec import Struct


class TwoWindow(Struct, frozen=True, kw_only=True):
    """The last values, oldest first, and how many values of an alarm are left."""

    length: int = 60
    least: int = 5
    limit: float = 4.5
    smallest: float = 1.0
    most: float = 4.0
    hold: int = 10
    values: tuple[float, ...] = ()
    left: int = 0
    direction: Literal["", "up", "down"] = ""

    @property
    def drifted(self) -> bool:
        """Whether an alarm stands."""
        return self.left > 0

    def update(self, x: float) -> Self:
        """One more value; what is not finite is left out."""
        if not math.isfinite(x):
            return self
        values = (*self.values, max(-self.most, min(self.most, x)))[-self.length :]
        left = max(0, self.left - 1)
        found = self._split(values)
        if found is None:
            direction = self.direction if left else ""
            return msgspec.structs.replace(self, values=values, left=left, direction=direction)
        at, rose = found
        return msgspec.structs.replace(
            self, values=values[at:], left=self.hold, direction="up" if rose else "down"
        )

    def _split(self, values: tuple[float, ...]) -> tuple[int, bool] | None:
        """Where the level changed and whether upwards, at the split that shows it best."""
        n = len(values)
        if n < 4 * self.least:
            return None
        x = np.array(values)
        old = np.arange(self.least, n - self.least + 1)
        sums, squares = np.cumsum(x), np.cumsum(x * x)
        mean_old = sums[old - 1] / old
        mean_new = (sums[-1] - sums[old - 1]) / (n - old)
        within = squares[-1] - old * mean_old**2 - (n - old) * mean_new**2
        deviation = np.sqrt(np.maximum(within / (n - 2), 1e-12))
        apart = mean_new - mean_old
        z = apart / (deviation * np.sqrt(1 / old + 1 / (n - old)))
        best = int(np.argmax(np.abs(z)))
        alike = _alike(np.where(np.arange(n) < old[best], x - mean_old[best], x - mean_new[best]))
        widened = abs(float(z[best])) / math.sqrt((1 + alike) / (1 - alike))
        if widened <= self.limit or abs(float(apart[best])) < self.smallest:
            return None
        return int(old[best]), float(apart[best]) > 0


def _alike(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Lag-1 correlation of what is left within the two sides, 0 to .9."""
    total = float(np.dot(x, x))
    return min(0.9, max(0.0, float(np.dot(x[1:], x[:-1])) / total)) if total > 0 else 0.0
