"""The loop's worth: the mean over strata of what blocks as usual have over the baseline's block.

Each stratum's difference d stands against a draw of its own, so that, whatever the load did and
however much one block is like the next, the draws are independent and so are the errors they leave
in d. The interval is Student's over the strata, mean ± t(n−1, .975) · s/√n. It asks nothing of the
blocks; only that there are enough strata for their mean to be near normal, hence none for a few.
Where the worth itself differs from stratum to stratum, it is rather too wide.

>>> found = estimates([{"U": 0.03}, {"U": 0.05}, {"U": 0.04}, {"U": 0.02}, {"U": 0.06}])
>>> [(e.metric, round(e.estimate, 3), round(e.low, 3), round(e.high, 3)) for e in found]
[('U', 0.04, 0.02, 0.06)]

Reference: J. Neyman, "On the application of probability theory to agricultural experiments" (1923),
transl. Statistical Science 5 (1990): a variance from the randomisation alone, never too small.

Why not a t-test over blocks: neighbours are alike, so that their number says little and the
interval would be far too narrow. Why not before against after: what else changed meanwhile would
be the loop's merit, or its fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from controller.judge.effects import t_interval
from controller.trials import PRIMARY
from policies.policy import Effect

LEAST_STRATA: Final = 5
"""With fewer differences of a metric nothing is said of it."""


def estimates(strata: Sequence[Mapping[str, float]]) -> tuple[Effect, ...]:
    """As usual − baseline, by metric, U first. ``strata``: the difference of each."""
    metrics = sorted({name for d in strata for name in d}, key=lambda name: (name != PRIMARY, name))
    found = ((metric, [d[metric] for d in strata if metric in d]) for metric in metrics)
    return tuple(_effect(metric, ds) for metric, ds in found if len(ds) >= LEAST_STRATA)


def _effect(metric: str, ds: Sequence[float]) -> Effect:
    low, high = t_interval(ds)
    return Effect(
        metric=metric,
        estimate=math.fsum(ds) / len(ds),
        low=low,
        high=high,
        source=f"holdback, {len(ds)} strata, 95% t interval",
    )


def summed(effects: Sequence[Effect]) -> Effect | None:
    """The effects of trials together, as if each held still and none stood in another's way.

    Half-widths add as squares, for each trial has coins of its own. None without any.
    """
    if not effects:
        return None
    estimate = math.fsum(one.estimate for one in effects)
    half = math.sqrt(math.fsum(((one.high - one.low) / 2) ** 2 for one in effects))
    return Effect(
        metric=effects[0].metric,
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        source=f"sum over {len(effects)} trials that were kept",
    )
