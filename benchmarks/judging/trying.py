"""One trial on a path of load, from its first unit to the product's own verdict.

``rule_on`` looks where a look can end the trial: where one of the product's own e-values has
reached its limit, after the third latency trip, and at the last unit. At any other unit it could
only say "go on", so the hundred thousands of trials are not asked there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.judging.paths import Path
from controller.judge.carry_over import CHECK_AFTER_UNITS, carry_over, plan_in_force
from controller.judge.eprocess import e_value
from controller.judge.verdict import rule_on
from controller.trials import Trial, TrialPlan, Unit, arms


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
    trial, at_s, units, trips = Trial(plan=plan, began_us=0), 0.0, list[Unit](), 0
    while True:
        in_force = plan_in_force(trial, len(units))
        found = unit_at(at_s, in_force, len(units))
        at_s += in_force.block_s * plan.blocks_per_unit
        units.append(found)
        trips += found.tripped
        checking = (
            trial.doubled_from is None and CHECK_AFTER_UNITS <= len(units) <= 2 * CHECK_AFTER_UNITS
        )
        if checking or worth_a_look(plan, units, trips):
            trial = msgspec.structs.replace(trial, units=tuple(units), trips=trips)
            if checking and carry_over(trial):
                trial = msgspec.structs.replace(trial, doubled_from=len(units))
            ruling = rule_on(trial)
            if ruling.verdict is not None:
                return Outcome(
                    verdict=ruling.verdict,
                    cause=str(ruling.cause),
                    units=ruling.units,
                    minutes=at_s / 60,
                    trips=trips,
                    doubled=trial.doubled_from is not None,
                )


def worth_a_look(plan: TrialPlan, units: list[Unit], trips: int) -> bool:
    """Whether ``rule_on`` could say anything but "go on"."""
    if trips >= plan.max_trips or len(units) >= plan.max_units:
        return True
    if len(units) < plan.min_units:
        return False
    primary = _ds(units, plan.primary)
    if not primary or e_value(primary, scale=plan.scale) >= 1 / plan.alpha:
        return True
    limit = (len(plan.guards) + 1) / plan.alpha
    scales = {plan.primary: plan.scale} | {guard.metric: guard.scale for guard in plan.guards}
    return any(
        e_value([-d for d in _ds(units, metric)], scale=scale) >= limit
        for metric, scale in scales.items()
    )


def _ds(units: list[Unit], metric: str) -> list[float]:
    return [unit.d[metric] for unit in units if metric in unit.d]
