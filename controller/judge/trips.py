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


def hard_trip(plan: TrialPlan, *, errors: int, completed: int) -> str | None:
    """Why the candidate's arm must end now, or None.

    ``completed``: requests of the candidate's arm that were answered, the ``errors`` among them
    included.
    """
    if errors < plan.min_errors or errors <= plan.max_error_rate * completed:
        return None
    return (
        f"error rate {errors / max(completed, errors):.1%} over the limit of "
        f"{plan.max_error_rate:.1%} ({errors} errors in {completed} answers)"
    )


def latency_trip(limits: MissLimits, *, candidate: int, baseline: int) -> str | None:
    """Why the candidate should rest for the unit's remainder, or None.

    Both count misses over *equal* time since their own block began (``misses_within``).
    """
    if candidate <= limits.trip_ratio * baseline or candidate - baseline < limits.trip_misses:
        return None
    return (
        f"{candidate} misses on the candidate against {baseline} on the baseline "
        f"in the same time since their blocks began"
    )


def misses_within(
    requests: Sequence[RequestRow], *, block: int, began_us: int, ran_s: float
) -> int:
    """Misses of one block that had become one ``ran_s`` after the block began."""
    return sum(at <= ran_s for at in misses_s(requests, block=block, began_us=began_us))


def misses_s(requests: Sequence[RequestRow], *, block: int, began_us: int) -> list[float]:
    """When each known miss of one block became one, in seconds since the block began, sorted.

    A request misses when it ends not good, or when its deadline passes, whichever is first. The
    request counts where it arrived, whenever it ended.
    """
    moments = [
        min(at for at in (row.finished_us, row.deadline_us) if at is not None)
        for row in requests
        if row.block == block
        and row.good is False
        and (row.finished_us is not None or row.deadline_us is not None)
    ]
    return sorted((at - began_us) / MICROS for at in moments)
