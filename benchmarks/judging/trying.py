"""One trial on a path of load, from its first unit to the product's own verdict.

``rule_on`` looks where a look can end the trial: where one of the sign process's e-values has
reached its limit, after the third latency trip, and at the last unit. At any other unit it could
only say "go on", so the hundred thousands of trials are not asked there. ``Looks`` keeps the
logarithms of the bets and adds each unit's once; a test holds it to ``rule_on`` at every unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from benchmarks.judging.paths import Path
from controller.judge.carry_over import CHECK_AFTER_UNITS, carry_over, plan_in_force
from controller.judge.eprocess import EFFECT_GRID
from controller.judge.verdict import rule_on
from controller.trials import Trial, TrialPlan, Unit, arms

LOG_2: Final = math.log(2.0)
ROUNDING: Final = 1e-9
"""Sums are added in another order than the judge's; so near to a limit it is asked."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one trial ended. ``hours``: for how long the policy was on trial."""

    verdict: str
    cause: str
    units: int
    minutes: float
    trips: int
    doubled: bool

    @property
    def hours(self) -> float:
        """Policy-hours."""
        return self.minutes / 60


Units = Callable[[float, TrialPlan, int], Unit]
"""The unit that begins at a time, under the plan in force for it, by its index."""


def try_out(path: Path, plan: TrialPlan) -> Outcome:
    """One trial on a path."""

    def unit(at_s: float, in_force: TrialPlan, index: int) -> Unit:
        return path.unit(at_s, in_force, arms(plan.seed, index), index)

    return judged(plan, unit)


def judged(plan: TrialPlan, unit_at: Units) -> Outcome:
    """Unit after unit, until the judge has ruled."""
    trial, at_s, units, looks = Trial(plan=plan, began_us=0), 0.0, list[Unit](), Looks(plan)
    while True:
        in_force = plan_in_force(trial, len(units))
        found = unit_at(at_s, in_force, len(units))
        at_s += in_force.block_s * plan.blocks_per_unit
        units.append(found)
        worth = looks.worth_one(found)
        checking = trial.doubled_from is None and looks.counted == CHECK_AFTER_UNITS
        if not (checking or worth):
            continue
        trial = msgspec.structs.replace(trial, units=tuple(units), trips=looks.trips)
        if checking and carry_over(trial):
            trial = msgspec.structs.replace(trial, doubled_from=len(units))
        ruling = rule_on(trial) if worth else None
        if ruling is not None and ruling.verdict is not None:
            return Outcome(
                verdict=ruling.verdict,
                cause=str(ruling.cause),
                units=ruling.units,
                minutes=at_s / 60,
                trips=looks.trips,
                doubled=trial.doubled_from is not None,
            )


class Looks:
    """The evidence so far, as cheaply as it can be had, to see where ``rule_on`` should be asked.

    ``counted``: units with a difference in the primary metric.
    """

    def __init__(self, plan: TrialPlan) -> None:
        self._plan = plan
        self.trips = self.counted = self._closed = 0
        scales = {plan.primary: plan.scale} | {guard.metric: guard.scale for guard in plan.guards}
        self._metrics = tuple(scales)
        self._rates = 2.0 * np.outer([1 / scale for scale in scales.values()], EFFECT_GRID)
        self._worse = np.zeros_like(self._rates)
        self._better = np.zeros(len(EFFECT_GRID))
        floor = (1 - ROUNDING) * len(EFFECT_GRID)
        self._improved = floor / plan.alpha
        self._harmed = floor * plan.harm_limit

    def worth_one(self, unit: Unit) -> bool:
        """Whether ``rule_on`` could say anything but "go on" after this unit too."""
        plan = self._plan
        self._closed += 1
        self.trips += unit.tripped
        if unit.judged and unit.void is None and plan.primary in unit.d:
            self.counted += 1
            self._bet(unit)
        if self.trips >= plan.max_trips or self._closed >= plan.max_units:
            return True
        if self._closed < plan.min_units:
            return False
        return (
            not self.counted
            or bool(np.exp(self._better).sum() >= self._improved)
            or bool(np.exp(self._worse).sum(axis=1).max() >= self._harmed)
        )

    def _bet(self, unit: Unit) -> None:
        """exp(x)/cosh(x) = 2/(1 + exp(−2x)); a metric that the unit lacks is not bet on."""
        ds = np.array([unit.d.get(metric, np.nan) for metric in self._metrics])
        bets = self._rates * ds[:, None]
        self._better += LOG_2 - np.logaddexp(0.0, -bets[0])
        self._worse += np.nan_to_num(LOG_2 - np.logaddexp(0.0, bets))
