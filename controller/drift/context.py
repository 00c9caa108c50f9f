"""What is left of a block's figure once its context is known: a standardised residual.

A latency follows its load, and load drifts all day; a detector on the latency itself reports the
load. So the figure y (a block's mean log latency) is predicted from exogenous context c (arrivals,
offered tokens; never queue depth) by ridge regression on (1, c, c²), learned on line with weights
that halve in ``half_life`` blocks::

    r = y − φ(c)·w          predicted before y is learned
    e = (r − a·r₋₁) / s     a: lag-1 correlation of r, s: deviation of r − a·r₋₁, both learned too

e is what detectors take. Neighbouring blocks are alike (a queue carries over), which a detector
made for independent values would take for drift: hence a. The first ``warm`` blocks give no
residual.

>>> import random
>>> rng, model, last = random.Random(3), ContextResidual(), None
>>> for block in range(200):
...     load = 2.0 + math.sin(block / 20)
...     model, last = model.update((load,), 3.0 * load + rng.gauss(0, 0.1))
>>> abs(last) < 4
True
>>> model.update((2.5,), 3.0 * 2.5 + 1.0)[1] > 5
True

Why not learn nothing during a drift: nobody knows it is one. The half-life is long beside the time
a detector needs, so most of a shift is still there when it is found, and gone an hour later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Self

import msgspec
import numpy as np
from msgspec import Struct

RIDGE: Final = 1e-3
MOST_ALIKE: Final = 0.9


class ContextResidual(Struct, frozen=True, kw_only=True):
    """Discounted sums: of the regression (``a``, row by row, and ``y``), and of its residuals.

    The context's length is fixed by the first block; a block of another length, or one with a
    figure that is not finite, is left out.
    """

    half_life: float = 120.0
    warm: int = 20
    whiten: bool = True
    n: int = 0
    a: tuple[tuple[float, ...], ...] = ()
    y: tuple[float, ...] = ()
    last: float = 0.0
    rr: float = 0.0
    lag: float = 0.0
    weight: float = 0.0
    ee: float = 0.0

    def update(self, context: Sequence[float], y: float) -> tuple[Self, float | None]:
        """The model after one more block, and the block's residual (None: too early to say)."""
        row = np.array([1.0, *context, *(value * value for value in context)])
        if not (math.isfinite(y) and np.all(np.isfinite(row))) or (
            self.y and len(row) != len(self.y)
        ):
            return self, None
        size = len(row)
        a = np.array(self.a) if self.a else np.zeros((size, size))
        sums = np.array(self.y) if self.y else np.zeros(size)
        r = y - float(row @ np.linalg.solve(a + RIDGE * np.eye(size), sums))
        keep = 2.0 ** (-1.0 / self.half_life)
        learned = msgspec.structs.replace(
            self,
            n=self.n + 1,
            a=tuple(tuple(float(v) for v in line) for line in keep * a + np.outer(row, row)),
            y=tuple(float(v) for v in keep * sums + row * y),
        )
        if self.n < 2 * size:
            return learned, None
        return learned._residual(r, keep)

    @property
    def alike(self) -> float:
        """Lag-1 correlation of the residuals, 0 to .9."""
        return min(MOST_ALIKE, max(0.0, self.lag / self.rr)) if self.rr > 0 else 0.0

    def _usual(self, r: float) -> float:
        """At most two deviations of it: a shift that lasts is not to be taken for likeness."""
        most = 2.0 * math.sqrt(self.rr / self.weight) if self.weight > 0 else 0.0
        return max(-most, min(most, r)) if most else r

    def _residual(self, r: float, keep: float) -> tuple[Self, float | None]:
        left = r - self.alike * self.last if self.whiten else r
        deviation = math.sqrt(self.ee / self.weight) if self.weight > 0 else 0.0
        bounded = left if not deviation else max(-4 * deviation, min(4 * deviation, left))
        usual, before = self._usual(r), self._usual(self.last)
        after = msgspec.structs.replace(
            self,
            last=r,
            rr=keep * self.rr + usual * usual,
            lag=keep * self.lag + usual * before,
            weight=keep * self.weight + 1.0,
            ee=keep * self.ee + bounded * bounded,
        )
        ready = self.n > self.warm and deviation > 0
        return after, left / deviation if ready else None
