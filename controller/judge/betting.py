"""A bet on a bounded mean: evidence that units are worse on average, however rarely it shows.

Idea. The sign process asks whether swapping the arms changes anything, with a scale for effects of
the usual size; a loss that comes in one unit of twenty pays it once in twenty and is drowned. This
one asks for the mean. A bettor stakes a share of his capital on "the next value lies above m". If
the mean given the past is at most m, no stake gains on average, so his capital is a non-negative
supermartingale that starts at 1 and ever reaches 1/α with probability at most α (Ville), whatever
the values' distribution, their autocorrelation, and when it is looked at.

Formula, for x in [lo, hi], scaled to y = (x − lo)/(hi − lo) and m alike; the stake before value t
knows only the values before it (a predictable plug-in)::

    K_t = K_{t−1} · (1 + λ_t (y_t − m)),     λ_t = min(√(2 ln(2/α) / (v_{t−1} t ln(1 + t))), c/m)
    v_t = (1/4 + Σ (y_i − u_i)²) / (t + 1),  u_t = (1/2 + Σ y_i) / (t + 1)

Half of the capital is staked so, and half holds λ = c/m at a quarter, so that a small, steady mean
is not starved by stakes that only shrink: a mean of supermartingales is one too.

>>> round(bounded_e_value([0.0] * 50, lo=-1.0, hi=1.0), 3)
1.0
>>> bounded_e_value([0.5] * 50, lo=-1.0, hi=1.0) > 1000
True
>>> bounded_e_value([-0.5] * 50, lo=-1.0, hi=1.0) < 0.05
True

It stands beside the sign process and does not replace it: with d of .1 in [−2, 2] one unit can pay
5 % at most, so that a common effect takes a hundred units where the sign process takes seven. And
bounds must be honest: a value outside is refused, not clipped, for clipping would move the mean.

Reference: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
Journal of the Royal Statistical Society B 86 (2024), the one-sided capital process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from signals.errors import Rejected

TRUNCATION: Final = 0.5
"""c: one value takes at most this share of the capital, so that no single one ends the game."""
STEADY_SHARE: Final = 0.25
"""The steady half's stake as a share of the largest one."""
LARGEST_LOG: Final = 700.0
"""Of a capital: beyond it a double overflows, and nobody asks for more evidence."""


def bounded_e_value(
    values: Sequence[float] | NDArray[np.float64],
    *,
    lo: float,
    hi: float,
    mean: float = 0.0,
    alpha: float = 0.01,
) -> float:
    """E against "the mean is at most ``mean``", after all values; none: 1. As ``bounded_e_path``.

    To look for losses negate the values, the bounds (and swap them) and the mean.
    """
    return ([1.0, *bounded_e_path(values, lo=lo, hi=hi, mean=mean, alpha=alpha)])[-1]


def bounded_e_path(
    values: Sequence[float] | NDArray[np.float64],
    *,
    lo: float,
    hi: float,
    mean: float = 0.0,
    alpha: float = 0.01,
) -> list[float]:
    """E after each value, in their order.

    ``alpha`` tunes the stakes only; any 1/α may be compared with the answer. Raises Rejected for a
    value outside [lo, hi] and for a ``mean`` that is not strictly inside.
    """
    if not lo < mean < hi:
        raise _refused("mean", mean, f"inside ({lo:g}, {hi:g})")
    x = np.asarray(values, dtype=float)
    outside = x[~((x >= lo) & (x <= hi))]
    if len(outside):
        raise _refused("values", float(outside[0]), f"in [{lo:g}, {hi:g}]")
    y, m = (x - lo) / (hi - lo), (mean - lo) / (hi - lo)
    most = TRUNCATION / m
    plugged = np.minimum(_plugged_in(y, alpha), most)
    steady = np.full(len(y), STEADY_SHARE * most)
    logs = np.cumsum(np.log1p(np.stack((plugged, steady)) * (y - m)), axis=1)
    return [float(e) for e in np.exp(np.minimum(logs, LARGEST_LOG)).mean(axis=0)]


def _refused(field: str, value: float, allowed: str) -> Rejected:
    return Rejected(
        f"{field}: {value!r} is not {allowed}", field=field, value=value, allowed=allowed
    )


def _plugged_in(y: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """λ before each value, from the values before it alone."""
    t = np.arange(1, len(y) + 1)
    means = (0.5 + np.cumsum(y)) / (t + 1)
    variances = (0.25 + np.cumsum((y - means) ** 2)) / (t + 1)
    before = np.concatenate(([0.25], variances[:-1]))[: len(y)]
    stakes: NDArray[np.float64] = np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log1p(t)))
    return stakes
