"""The carry-over check: is the washout long enough for this engine?

If the other arm's queue still drains inside the counted window, d grows from the window's first
half to its second. Once, after the eighth counted unit, a paired t-test of the primary metric's d,
first half against second; p < .05 doubles block and washout for the units that follow. It looks at
the blocks' length, never at the verdict, so it costs no error probability.

``scipy.special.stdtr`` is Student's distribution function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
from scipy.special import stdtr

from controller.trials import Trial, TrialPlan, Unit

CHECK_AFTER_UNITS: Final = 8
P_LIMIT: Final = 0.05


def counted_units(trial: Trial) -> list[Unit]:
    """The closed units that have a difference in the primary metric."""
    return [u for u in trial.units if u.judged and u.void is None and trial.plan.primary in u.d]


def carry_over(trial: Trial) -> str | None:
    """Why block and washout should now double, with figures; None: they are long enough.

    Answers only at the moment of the check: exactly eight counted units, not doubled yet.
    """
    units = counted_units(trial)
    if trial.doubled_from is not None or len(units) != CHECK_AFTER_UNITS:
        return None
    halves = [tuple(half.get(trial.plan.primary) for half in unit.halves) for unit in units]
    shifts = [b - a for a, b in halves if a is not None and b is not None]
    p = paired_p(shifts)
    if p >= P_LIMIT:
        return None
    mean = math.fsum(shifts) / len(shifts)
    return (
        f"carry-over: {trial.plan.primary}'s difference moves by {mean:+.3g} from the first to the "
        f"second half of the counted window (paired t, p = {p:.3f}, {len(shifts)} units)"
    )


def plan_in_force(trial: Trial, unit_index: int) -> TrialPlan:
    """The plan with the lengths that hold for one unit: doubled ones after the check.

    Between two units of a session split nothing changes, so that only the first one has a washout,
    and one before which the candidate was away.
    """
    plan = trial.plan
    if trial.doubled_from is not None and unit_index >= trial.doubled_from:
        plan = msgspec.structs.replace(plan, block_s=2 * plan.block_s, washout_s=2 * plan.washout_s)
    if plan.design == "session_split" and _goes_on(trial, unit_index):
        return msgspec.structs.replace(plan, washout_s=0.0)
    return plan


def _goes_on(trial: Trial, unit_index: int) -> bool:
    """Whether the unit before ended in its own time, with the candidate in force to its end."""
    if not 0 < unit_index <= len(trial.units):
        return False
    before = trial.units[unit_index - 1]
    return not before.tripped and not any(block.cut for block in before.blocks)


def paired_p(shifts: Sequence[float]) -> float:
    """Two-sided p of a paired t-test that the mean shift is zero; 1 when it can't be computed.

    >>> round(paired_p([0.1, 0.3, 0.2, 0.4]), 4)
    0.0305
    """
    n = len(shifts)
    if n < 2:
        return 1.0
    mean = math.fsum(shifts) / n
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in shifts) / (n - 1) / n)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return 2.0 * float(stdtr(n - 1, -abs(mean) / error))
