"""When a trial's exposures are old enough for users' feedback, and of which units. Pure."""

from __future__ import annotations

from controller.trials import Trial, Unit
from policies.policy import Policy
from signals.events import MICROS


def is_provisional(policy: Policy) -> bool:
    """Whether a kept policy is still to be confirmed."""
    return policy.state == "kept" and policy.provisional


def counted(trial: Trial) -> list[Unit]:
    """The units that a confirmation is computed from: those that the verdict was."""
    return [unit for unit in trial.units if unit.judged and unit.void is None]


def ripe_us(trial: Trial) -> int:
    """When the youngest exposure of a trial is as old as the oldest age that it is read at."""
    ends = [block.ended_us or 0 for unit in counted(trial) for block in unit.blocks]
    ages_s = [one.age_s for one in trial.plan.aged]
    return max(ends, default=0) + max(ages_s, default=0) * MICROS
