"""Moves that were undone wait: a back-off that doubles, and is forgiven. Pure.

A *move* is a direction on a place: whoever found 16 harmful need not learn the same of 32 a minute
later. With offences at t₁ < … < tₙ (a policy in that direction that was reverted)::

    score = Σ 2^−(tₙ − tᵢ)/forgive        wait = min(cooldown_max, cooldown · 2^(score − 1))

after tₙ. The first offence waits ``cooldown_s``, one right after it twice as long, and what is long
past counts for little. Only ``reverted`` counts: a proposal that was refused or expired says
nothing about the engine.

>>> round(wait_s([0, 0], forgive_s=3600, cooldown_s=600, most_s=86_400))
1200
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.limits import MICROS, Limits
from policies.policy import Policy
from policies.proposal import Proposal
from policies.steps import direction

MAX_DOUBLINGS = 32.0


def wait_s(
    offences_us: Sequence[int], *, forgive_s: float, cooldown_s: float, most_s: float
) -> float:
    """How long after the last offence the move waits; 0 without any."""
    if not offences_us:
        return 0.0
    last_us = max(offences_us)
    ages_s = [(last_us - at_us) / MICROS for at_us in offences_us]
    score = sum(2.0 ** -(age_s / forgive_s) for age_s in ages_s)
    return float(min(most_s, cooldown_s * 2.0 ** min(score - 1, MAX_DOUBLINGS)))


def offences(proposal: Proposal, policies: Iterable[Policy]) -> list[Policy]:
    """Reverted policies that made the same move, in the order given.

    An emergency's release is its normal end: only harm counts, and only against emergencies.
    """
    move = _move(proposal)
    return [
        policy
        for policy in policies
        if policy.state == "reverted"
        and policy.place == proposal.place
        and policy.emergency == proposal.emergency
        and (not policy.emergency or policy.verdict == "HARMED")
        and _move(policy) == move
    ]


def left_s(proposal: Proposal, policies: Iterable[Policy], limits: Limits, now_us: int) -> float:
    """Seconds until the move may be made again; 0 or less: now."""
    ended_us = [policy.updated_us for policy in offences(proposal, policies)]
    if not ended_us:
        return 0.0
    waits_s = wait_s(
        ended_us,
        forgive_s=limits.forgive_s,
        cooldown_s=limits.cooldown_s,
        most_s=limits.cooldown_max_s,
    )
    return waits_s - (now_us - max(ended_us)) / MICROS


def _move(change: Proposal | Policy) -> tuple[str, bool]:
    return direction(change.before, change.setting), change.setting.law is not None
