"""The reported effect of a trial: the mean difference of its units with Student's t interval.

From the trial alone, every counted unit once. The units are randomised, so their differences are
treated as independent draws: mean ± t(n−1, .975) · s/√n. The interval is read when the e-process
stops, and is not widened for that; it describes the size, and the verdict rests on E alone.

Why not the e-process inverted into a confidence sequence: it tests "swapping changes nothing", not
a mean, and its inversion assumes that the effect is one constant shift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import stdtrit

from controller.judge.carry_over import counted_units
from controller.trials import Trial
from policies.policy import Effect

CONFIDENCE = 0.95


def effects(trial: Trial) -> dict[str, Effect]:
    """The effect on each metric that at least two counted units have, in the metric's own unit."""
    units = counted_units(trial)
    metrics = sorted({metric for unit in units for metric in unit.d})
    ds = {metric: [unit.d[metric] for unit in units if metric in unit.d] for metric in metrics}
    return {metric: _effect(metric, found) for metric, found in ds.items() if len(found) >= 2}


def _effect(metric: str, ds: Sequence[float]) -> Effect:
    low, high = t_interval(ds)
    return Effect(
        metric=metric,
        estimate=math.fsum(ds) / len(ds),
        low=low,
        high=high,
        source=f"trial, {len(ds)} units, {CONFIDENCE:.0%} t interval",
    )


def t_interval(ds: Sequence[float], *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval for the mean of at least two values.

    >>> [round(x, 3) for x in t_interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    n = len(ds)
    mean = math.fsum(ds) / n
    error = math.sqrt(math.fsum((d - mean) ** 2 for d in ds) / (n - 1) / n)
    reach = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    return mean - reach, mean + reach
