"""On and off by turns, or up and down with the day: shares of a peak, for ``shaping.thinned``.

>>> share = square(on_s=80, off_s=80, off_share=0.1)
>>> [share(at_s) for at_s in (0.0, 79.9, 80.0, 159.9, 160.0)]
[1.0, 1.0, 0.1, 0.1, 1.0]
>>> [round(day(lowest=0.2, period_s=86_400)(hour * 3600), 2) for hour in (0, 6, 12, 18)]
[0.2, 0.6, 1.0, 0.6]
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from engine.simulated.arrivals.bounds import MOST_S, above, within
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import thinned
from engine.simulated.offered import Arrivals


def square(*, on_s: float, off_s: float, off_share: float = 0.0) -> Callable[[float], float]:
    """1 for ``on_s`` seconds, then ``off_share`` for ``off_s``, and so on; on at second 0."""
    above("on_s", on_s, 0.0, MOST_S)
    above("off_s", off_s, 0.0, MOST_S)
    within("off_share", off_share, 0.0, 1.0)
    return lambda at_s: 1.0 if at_s % (on_s + off_s) < on_s else off_share


def day(*, lowest: float, period_s: float = 86_400.0) -> Callable[[float], float]:
    """A cosine from ``lowest`` at second 0 to 1 half a period later."""
    within("lowest", lowest, 0.0, 1.0)
    above("period_s", period_s, 0.0, MOST_S)
    half = (1.0 - lowest) / 2
    return lambda at_s: lowest + half * (1.0 - math.cos(2 * math.pi * at_s / period_s))


def phases(
    load: Load, rng: np.random.Generator, *, on_s: float, off_s: float, off_share: float = 0.0
) -> Arrivals:
    """``load`` while on (its ``per_s`` is the rate then), and a share of it while off."""
    share = square(on_s=on_s, off_s=off_s, off_share=off_share)
    return thinned(poisson(load, rng), share, rng)
