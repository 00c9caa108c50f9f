"""The sign e-process: evidence against "no effect" that may be looked at after every unit.

Idea. Each unit compares two adjacent blocks whose order a fair coin chose. If the candidate has no
effect, swapping the coin only flips the sign of the unit's difference d, so given everything else
+d and −d are equally likely. A bet on the sign that pays exp(λd)/cosh(λd) is then fair:
½·exp(λd)/cosh(λd) + ½·exp(−λd)/cosh(λd) = 1. The product of fair bets is a non-negative martingale
that starts at 1, so by Ville's inequality it ever reaches 1/α with probability at most α: at any
unit, with any stopping rule, whatever the autocorrelation of the load.

Formula, with grid G and frozen scale s (a difference of the size worth noticing is about s/10)::

    E = mean over g in G of  Π_i exp(λ d_i) / cosh(λ d_i),   λ = g / s

The mixture replaces the choice of one λ; a mean of martingales is a martingale. A tie (d = 0) pays
1. One unit pays at most 2, hence at least 7 units to 1/α = 100, and 5 to 20.

>>> round(e_value([0.0, 0.0], scale=1.0), 3)
1.0
>>> round(e_value([0.5] * 6, scale=1.0)), round(e_value([0.5] * 7, scale=1.0))
(62, 124)

Why not a t-test, peeked at each unit: false alarms of 10 to 35 % an hour. Why not a confidence
sequence over requests: requests of one block share a queue, and with dependent data its guarantee
is void (12 to 80 % false alarms on real queues with nothing changed).

What it is not: a test of means. It rejects "swapping the arms changes nothing", which a change of
spread alone can also break; therefore ``pessimistic_mean`` must agree before anything is kept.

Reference: J. Ville, Étude critique de la notion de collectif (1939); A. Ramdas et al.,
"Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38 (2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

EFFECT_GRID: Final = (4.0, 8.0, 16.0, 32.0)
"""λ·s for IMPROVED and HARMED."""
GUARD_GRID: Final = (0.125, 0.5, 2.0, 8.0)
"""λ·margin for guards."""
WORST_SHARE: Final = 0.1
"""The share of units, rounded up, that ``pessimistic_mean`` counts twice."""


def e_value(ds: Sequence[float], *, scale: float, grid: Sequence[float] = EFFECT_GRID) -> float:
    """E against "no effect" in favour of d > 0; for d < 0 pass the negated differences.

    ``ds``: one finite difference per unit. ``scale``: s, > 0, in the unit of d. No units: 1.
    """
    bets = np.outer(np.asarray(grid) / scale, np.asarray(ds, dtype=float))
    # log(exp(x)/cosh(x)) = log 2 − log(1 + exp(−2x)), without ever forming a large exponential
    logs = np.sum(math.log(2.0) - np.logaddexp(0.0, -2.0 * bets), axis=1)
    return float(np.mean(np.exp(logs)))


def guard_e_value(ds: Sequence[float], *, margin: float) -> float:
    """E against "worse by ``margin`` or more" (> 0, in the unit of d): the process on d + margin.

    >>> round(guard_e_value([0.0] * 6, margin=0.02), 1)
    33.3
    """
    return e_value([d + margin for d in ds], scale=margin, grid=GUARD_GRID)


def pessimistic_mean(ds: Sequence[float]) -> float:
    """The mean with the worst (lowest) 10 % of units, rounded up, counted twice. Needs ≥ 1 unit.

    >>> pessimistic_mean([1.0, 1.0, 1.0, -1.0])
    0.2
    """
    worst = sorted(ds)[: math.ceil(WORST_SHARE * len(ds))]
    return (math.fsum(ds) + math.fsum(worst)) / (len(ds) + len(worst))
