"""Trips act at once, at any time; they never wait for a unit to close.

A *hard* trip is a verdict (HARMED, with its cause). A *latency* trip is none: the baseline comes
back for the rest of the unit, which still counts by assignment, and the third one ends the trial
as INCONCLUSIVE. Arms are compared over equal time: judged alone, a busy hour with no change at all
trips most "p99 above limit" rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller.trials import TrialPlan
from policies.runtime_config import Arm
from signals.events import MICROS
from signals.features.model import RequestRow


class MissLimits(Protocol):
    """When a latency trip fires: a frozen plan and the trial settings both say so."""

    @property
    def trip_ratio(self) -> float:
        """More than this many times the baseline's misses, and …"""

    @property
    def trip_misses(self) -> int:
        """… at least this many more."""


def hard_trip(plan: TrialPlan, *, errors: int, answered: int) -> str | None:
    """Why the candidate's arm must end now, or None.

    ``answered``: requests of the candidate's arm that ended, the ``errors`` among them
    included.
    """
    if errors < plan.min_errors or errors <= plan.max_error_rate * answered:
        return None
    return (
        f"error rate {errors / max(answered, errors):.1%} over the limit of "
        f"{plan.max_error_rate:.1%} ({errors} errors in {answered} answers)"
    )


def latency_trip(
    limits: MissLimits,
    *,
    baseline_misses_s: Sequence[float],
    candidate_misses_s: Sequence[float],
    ran_s: float,
) -> str | None:
    """Why the candidate should rest for the unit's remainder, or None.

    Misses are given in seconds since their own block began (``misses_s``); ``ran_s`` is how long
    *both* arms have run, so the shorter of the two. Misses later than that are not compared.
    """
    baseline = sum(at <= ran_s for at in baseline_misses_s)
    candidate = sum(at <= ran_s for at in candidate_misses_s)
    if candidate <= limits.trip_ratio * baseline or candidate - baseline < limits.trip_misses:
        return None
    return (
        f"{candidate} misses on the candidate against {baseline} on the baseline "
        f"in the first {ran_s:.0f} s of their blocks"
    )


def ended(requests: Sequence[RequestRow], *, arm: Arm) -> tuple[int, int]:
    """(answered, errors) of one arm's requests of a block; both count those with an error."""
    statuses = [row.status for row in requests if row.arm == arm]
    errors = statuses.count("error")
    return statuses.count("ok") + errors, errors


def misses_s(
    requests: Sequence[RequestRow], *, block: int, began_us: int, arm: Arm | None = None
) -> list[float]:
    """When each known miss of one block became one, in seconds since the block began, sorted.

    A request misses when it ends not good, or when its deadline passes, whichever is first. The
    request counts where it arrived, whenever it ended. ``arm``: of a crossover's block, and only of
    requests that arrived since the block began in both halves, so that neither had a start.
    """
    moments = [
        min(at for at in (row.finished_us, row.deadline_us) if at is not None)
        for row in requests
        if row.block == block
        and (arm is None or (row.arm == arm and row.arrival_us > began_us))
        and row.good is False
        and (row.finished_us is not None or row.deadline_us is not None)
    ]
    return sorted((at - began_us) / MICROS for at in moments)
