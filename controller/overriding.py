"""The loop heeds what people set: overrides end, trials wait for them, their units are void.

A trial on a place that is pinned, forced or frozen pauses and goes on in a fresh unit when that is
over: what was measured before still stands, and nothing is decided over the operator's head. An
override elsewhere on the target moves the figures of both arms, so only the unit it fell into is
void. A trial whose own ground changed (a new baseline) can't be judged any more.
"""

from __future__ import annotations

from controller.emergencies import emergencies
from controller.reading import undo
from controller.state import Draft, Seen
from controller.trial import blocks
from controller.trial.starting import baseline_below
from controller.trials import Trial
from policies.overrides import Override
from policies.policy import Policy


def end_overrides(draft: Draft) -> None:
    """End those whose time is over; a hold suspends that, as it does in the engine."""
    if draft.state.control.hold:
        return
    for one in list(draft.overrides.values()):
        if one.expires_us <= draft.now_us:
            draft.end(one, "expired")
            if one.kind != "freeze":
                _void_unit(draft, f"{one.words()} expired")


def check_ground(draft: Draft, seen: Seen) -> None:
    """End a trial whose ground changed, before anybody judges it by what it showed on the old."""
    trial = draft.trial
    if trial is None or trial.state == "done" or not _ground_moved(draft, trial, seen):
        return
    why = "INCONCLUSIVE: the baseline below it changed"
    undo(draft, draft.policies[trial.plan.policy_id], cause=why, verdict="INCONCLUSIVE")


def heed(draft: Draft) -> None:
    """Pause or resume the running trial, as overrides demand."""
    trial = draft.trial
    if trial is None or trial.state == "done":
        return
    policy = draft.policies[trial.plan.policy_id]
    cover = draft.covering(trial.plan.knob, trial.plan.scope)
    if cover is not None and trial.state == "running":
        _pause(draft, trial, policy, cover)
    elif cover is None and trial.paused_by == "override" and not emergencies(draft):
        _resume(draft, trial, policy)


def _pause(draft: Draft, trial: Trial, policy: Policy, cover: Override) -> None:
    draft.trial = blocks.pause(trial, now_us=draft.now_us, by="override")
    draft.note("trial.paused", trial.plan.id, policy=policy.id, override=cover.id)
    if policy.state == "on_trial":
        draft.move(policy, "paused", cause=f"{cover.words()} ({cover.id})")


def _resume(draft: Draft, trial: Trial, policy: Policy) -> None:
    draft.trial = blocks.resume(trial, now_us=draft.now_us)
    draft.note("trial.resumed", trial.plan.id, policy=policy.id)
    if policy.state == "paused":
        draft.move(policy, "on_trial", cause=None)


def _void_unit(draft: Draft, why: str) -> None:
    trial = draft.trial
    if trial is not None and trial.state == "running":
        cut = blocks.cut(trial, now_us=draft.now_us, why=why)
        draft.trial = blocks.begin(cut, now_us=draft.now_us)


def _ground_moved(draft: Draft, trial: Trial, seen: Seen) -> bool:
    """Whether what is below the candidate is no longer what the plan froze."""
    plan = trial.plan
    spec = None
    if seen.observed is not None:
        spec = next((one for one in seen.observed.knobs if one.name == plan.knob), None)
    if spec is None:
        return False
    return baseline_below(draft, plan.knob, spec.boot, plan.scope) != plan.baseline
