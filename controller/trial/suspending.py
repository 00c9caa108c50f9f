"""Trials stand still while something else moves the figures: a declared change, a freeze window.

The unit that was running is void (nobody may count what a deploy did), the policy is paused with
the cause, and the trial goes on in a fresh unit by itself once the change has settled.
"""

from __future__ import annotations

from controller.emergencies import emergencies
from controller.limiting import limits_of
from controller.state import LOOP, Draft
from controller.trial import blocks
from controller.trial.starting import around
from policies.guardrails import Case, as_proposal
from policies.policy import Origin, Policy
from policies.proposal import Proposal
from policies.settings import Setting
from policies.starting_rails import change, freeze


def suspend(draft: Draft) -> None:
    """Pause the trial that runs, or let one that was paused for this go on."""
    trial = draft.trial
    if trial is None or trial.state == "done":
        return
    policy = draft.policies[trial.plan.policy_id]
    why = _why(draft, policy)
    if why and trial.state == "running":
        draft.trial = blocks.pause(trial, now_us=draft.now_us, by="change")
        draft.note("trial.paused", trial.plan.id, policy=policy.id, why=why)
        if policy.state == "on_trial":
            draft.move(policy, "paused", cause=why)
    elif not why and trial.paused_by == "change" and not _stopped_otherwise(draft, policy):
        draft.trial = blocks.resume(trial, now_us=draft.now_us)
        draft.note("trial.resumed", trial.plan.id, policy=policy.id)
        if policy.state == "paused":
            draft.move(policy, "on_trial", cause=None)


def suspended(draft: Draft) -> str | None:
    """Why nothing may be compared on the target now: a declared change, or a freeze window."""
    anything = Proposal(
        target=draft.declared.name,
        knob="",
        setting=Setting(value=0),
        before=Setting(value=0),
        origin=Origin(kind="person", name=LOOP),
        reason="",
    )
    return _asked(draft, anything, None) or None


def _why(draft: Draft, policy: Policy) -> str:
    return _asked(draft, as_proposal(policy), policy.id)


def _asked(draft: Draft, proposal: Proposal, own: str | None) -> str:
    case = Case(
        proposal=proposal,
        around=around(draft, {}),
        limits=limits_of(draft.declared, proposal.knob, None),
        now_us=draft.now_us,
        own=own,
    )
    return change(case)[0] or freeze(case)[0]


def _stopped_otherwise(draft: Draft, policy: Policy) -> bool:
    """An emergency or an override began meanwhile: the trial goes on when that is over too."""
    return bool(emergencies(draft)) or draft.covering(policy.knob, policy.scope) is not None
