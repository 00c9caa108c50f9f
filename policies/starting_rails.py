"""The guardrails that an approved policy must pass to begin, one function each. Pure.

What they stop waits, and begins by itself once they let it; it expires like any approval.
"""

from __future__ import annotations

from policies.guarding import Case
from policies.lifecycle import State
from policies.limits import MICROS
from policies.proposal_rails import Answer

MOVING: frozenset[State] = frozenset({"applying", "on_trial", "paused", "in_force", "reverting"})


def override(case: Case) -> Answer:
    """No person has pinned, forced or frozen the place."""
    proposal, now_us = case.proposal, case.now_us
    for one in case.around.overrides:
        if one.target == proposal.target and one.covers(
            proposal.knob, proposal.scope, now_us=now_us
        ):
            left_s = (one.expires_us - now_us) / MICROS
            return f"{one.id} ({one.words()}) is in force for {left_s:.0f} s", {"left_s": left_s}
    return "", {}


def freeze(case: Case) -> Answer:
    """No freeze window is open."""
    for window in case.limits.windows:
        until_us = window.until_us(case.now_us)
        if until_us is not None:
            left_s = (until_us - case.now_us) / MICROS
            return f"freeze window {window.words()} for {left_s:.0f} s more", {"left_s": left_s}
    return "", {}


def change(case: Case) -> Answer:
    """Nobody has declared a change of the target that goes on, or has not settled yet."""
    for one in case.around.changes:
        if one.target != case.proposal.target:
            continue
        if not one.suspends(case.now_us, settle_us=case.around.settle_us):
            continue
        if one.until_us is None:
            return f"{one.id} ({one.kind}: {one.words}) is open", {}
        left_s = (one.until_us + case.around.settle_us - case.now_us) / MICROS
        words = f"{one.id} ({one.kind}: {one.words}) has not settled for {left_s:.0f} s more"
        return words, {"left_s": left_s}
    return "", {}


def drift(case: Case) -> Answer:
    """No drift alarm stands: while the engine changes by itself, arms are not compared fairly.

    But for reviews of what was kept before it did: to wait is to stay with what nobody knows.
    """
    if case.proposal.review:
        return "", dict(case.around.drift_figures)
    return case.around.drift, dict(case.around.drift_figures)


def emergency(case: Case) -> Answer:
    """No emergency acts: what is tried beside one is not compared with the baseline."""
    acting = [p for p in case.others if p.emergency and p.state in ("applying", "in_force")]
    if not acting:
        return "", {}
    return f"emergency {acting[0].id} ({acting[0].words()}) acts", {"acting": float(len(acting))}


def trial(case: Case) -> Answer:
    """One policy on trial per target."""
    running = case.around.trial
    if running is None or running == case.own:
        return "", {"trials": 0.0, "allowed": 1.0}
    return f"{running} is on trial", {"trials": 1.0, "allowed": 1.0}


def holdback(case: Case) -> Answer:
    """No block of the holdback runs: one that a trial cut short would count for nothing."""
    left_s = case.around.held_s
    words = f"a block of the holdback ends in {left_s:.0f} s"
    return (words if left_s > 0 else ""), {"left_s": left_s}


def trial_budget(case: Case) -> Answer:
    """The scope has trials left: of so many a day, or of what the false discovery rate allows."""
    return case.around.budget.answer(case.proposal.scope, case.now_us)


def moving(case: Case) -> Answer:
    """Policies change only so many places of the target at once."""
    busy = {policy.place for policy in case.others if policy.state in MOVING}
    allowed = case.limits.max_moving
    figures = {"places": float(len(busy)), "allowed": float(allowed)}
    words = f"{len(busy)} places are being changed by policies already; allowed {allowed}"
    return (words if len(busy) >= allowed else ""), figures
