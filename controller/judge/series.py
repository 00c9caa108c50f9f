"""A trial as lines to plot: for every metric that decides, each unit's d and where the tests stood.

The figures are those that ``verdict`` looks at after each counted unit, so that a plot shows what
the judge saw when it ruled: E on both sides against their limits, the mean with its interval, and
the mean with the worst tenth counted twice against its floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from controller.judge.carry_over import counted_units
from controller.judge.effects import t_interval
from controller.judge.eprocess import e_value, guard_e_value, pessimistic_mean
from controller.trials import GuardPlan, Trial, Unit


class Point(Struct, frozen=True, kw_only=True):
    """After one counted unit, over it and those before it.

    ``d`` and the means are in the metric's own unit, candidate − baseline. ``low`` and ``high``:
    95 % t interval of the mean, None for one unit. ``worst_twice``: the mean with the worst tenth
    counted twice. ``e_better``: E that it is better, of a guard that it is not worse by its margin;
    ``e_worse``: E that it is worse.
    """

    unit: int
    began_us: int | None
    d: float
    mean: float
    low: float | None
    high: float | None
    worst_twice: float
    e_better: float
    e_worse: float


class Line(Struct, frozen=True, kw_only=True):
    """One metric's points, by unit. IMPROVED needs both on every line at once: ``e_better`` at
    ``better_limit`` or above, ``worst_twice`` above ``mean_floor``. HARMED needs ``e_worse`` at
    ``worse_limit`` or above, on any.
    """

    metric: str
    role: Literal["primary", "guard"]
    better_limit: float
    worse_limit: float
    mean_floor: float
    points: tuple[Point, ...]


def series(trial: Trial) -> tuple[Line, ...]:
    """The primary metric's line, then each guard's; units without a metric have no point on it."""
    plan, units = trial.plan, counted_units(trial)
    primary = Line(
        metric=plan.primary,
        role="primary",
        better_limit=1 / plan.alpha,
        worse_limit=plan.harm_limit,
        mean_floor=0.0,
        points=_points(units, plan.primary, plan.scale, None),
    )
    guards = (
        Line(
            metric=guard.metric,
            role="guard",
            better_limit=1 / plan.guard_alpha,
            worse_limit=plan.harm_limit,
            mean_floor=-guard.margin,
            points=_points(units, guard.metric, guard.scale, guard),
        )
        for guard in plan.guards
    )
    return primary, *guards


def _points(
    units: Sequence[Unit], metric: str, scale: float, guard: GuardPlan | None
) -> tuple[Point, ...]:
    having = [unit for unit in units if metric in unit.d]
    ds = [unit.d[metric] for unit in having]
    return tuple(_point(unit, ds[:n], scale, guard) for n, unit in enumerate(having, 1))


def _point(unit: Unit, ds: Sequence[float], scale: float, guard: GuardPlan | None) -> Point:
    low, high = t_interval(ds) if len(ds) > 1 else (None, None)
    return Point(
        unit=unit.index,
        began_us=unit.blocks[0].began_us if unit.blocks else None,
        d=ds[-1],
        mean=math.fsum(ds) / len(ds),
        low=low,
        high=high,
        worst_twice=pessimistic_mean(ds),
        e_better=e_value(ds, scale=scale)
        if guard is None
        else guard_e_value(ds, margin=guard.margin),
        e_worse=e_value([-d for d in ds], scale=scale),
    )
