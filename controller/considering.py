"""What a person's change would meet: the guardrails, its risk, what would be in force. Reads only.

Proposing and evaluating go through here, so an evaluation says what a proposal will meet.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct, structs

from controller.baselines import baseline_in_force
from controller.desired import desired
from controller.drift.noting import drift_note, noted_drift
from controller.following import MANY
from controller.holdback.drawing import left_s
from controller.limiting import Alarms, around_of, below, guards_of, limits_of, risk_of
from controller.memory_wall import guard_wall
from controller.notes import noted
from controller.state import Declared
from controller.store.port import Tx
from controller.trial.budget import budget_of
from policies.guardrails import Around, Case, Finding, findings
from policies.knobs import KnobSpec
from policies.lifecycle import FINAL, STATES
from policies.policy import Policy
from policies.proposal import Proposal
from policies.risk import Assessed
from policies.runtime_config import RuntimeConfig
from policies.settings import Setting
from signals.events import MICROS

ACTIVE = tuple(state for state in STATES if state not in FINAL)
ENDED = tuple(state for state in STATES if state in FINAL and state != "observed")
RECENTLY_ENDED = 500
"""The longest memory that back-offs have of undone moves."""
RECENTLY_OBSERVED = 100

Begins = Literal["now", "waits", "never"]


class Considered(Struct, frozen=True, kw_only=True):
    """A proposal with what it meets. ``proposal.before`` is what its place has without trials."""

    case: Case
    risk: Assessed
    baseline: dict[str, Setting]

    @property
    def proposal(self) -> Proposal:
        """What is proposed."""
        return self.case.proposal


class Evaluation(Struct, frozen=True, kw_only=True):
    """What would become of a hypothetical change.

    ``now`` and ``after``: effective settings by place, as they are and once it were kept;
    ``changes``: the places that differ, in words.
    """

    target: str
    words: str
    before: Setting
    setting: Setting
    admitted: bool
    begins: Begins
    risk: Assessed
    approvals_needed: int
    guardrails: tuple[Finding, ...]
    now: dict[str, Setting]
    after: dict[str, Setting]
    changes: dict[str, str]


def remembered(tx: Tx, target: str) -> tuple[Policy, ...]:
    """The policies that decisions look at: those not final, and those that ended lately."""
    active = tx.policies(target=target, states=ACTIVE, limit=MANY)
    ended = tx.policies(target=target, states=ENDED, limit=RECENTLY_ENDED)
    observed = tx.policies(target=target, states=("observed",), limit=RECENTLY_OBSERVED)
    return (*active, *ended, *observed)


def around_now(tx: Tx, declared: Declared, seen: RuntimeConfig, *, now_us: int) -> Around:
    """What is around a proposal for this target now, from the store."""
    trials = tx.trials(target=declared.name, running=True, limit=1)
    settled_us = now_us - declared.guardrails.settle_s * MICROS
    notes = noted(tx, declared.name)
    found = around_of(
        declared,
        remembered(tx, declared.name),
        {spec.name: spec for spec in seen.knobs},
        overrides=tx.overrides(target=declared.name, state="active", limit=MANY),
        changes=tx.declared_changes(target=declared.name, from_us=settled_us, limit=MANY),
        trial=trials[0] if trials else None,
        budget=budget_of(declared.trial, notes, now_us=now_us),
        alarms=Alarms(
            drift=noted_drift(tx.note(drift_note(declared.name))).alarm,
            wall=guard_wall(notes, now_us=now_us, model=declared.plant),
        ),
    )
    return structs.replace(found, held_s=left_s(notes, now_us))


def consider(
    tx: Tx,
    declared: Declared,
    seen: RuntimeConfig,
    wanted: Proposal,
    *,
    spec: KnobSpec,
    now_us: int,
    without: Collection[str] = (),
) -> Considered:
    """What the proposal would meet. Its ``before`` is filled in here.

    ``without``: ids of policies that give way to it.
    """
    around = around_now(tx, declared, seen, now_us=now_us)
    left = tuple(policy for policy in around.policies if policy.id not in without)
    around = structs.replace(around, policies=left)
    baseline = baseline_in_force(tx.baseline(declared.name), declared.target)
    before = below(baseline, around.policies, wanted.knob, wanted.scope, spec.boot)
    proposal = structs.replace(wanted, before=before, guards=guards_of(declared, wanted.guards))
    return Considered(
        case=Case(
            proposal=proposal,
            around=around,
            limits=limits_of(declared, wanted.knob, spec),
            now_us=now_us,
        ),
        risk=risk_of(declared, proposal, spec, policies=around.policies, baseline=baseline),
        baseline=baseline,
    )


def evaluate(tx: Tx, declared: Declared, considered: Considered) -> Evaluation:
    """Everything that can be said of it beforehand. Changes nothing."""
    proposal, case = considered.proposal, considered.case
    found = findings(case)
    now = _effective(tx, declared, considered, ())
    after = _effective(tx, declared, considered, (_as_kept(proposal),))
    denied = any(one.outcome == "deny" for one in found)
    waits = any(one.outcome == "wait" for one in found)
    return Evaluation(
        target=declared.name,
        words=proposal.words(),
        before=proposal.before,
        setting=proposal.setting,
        admitted=not denied,
        begins="never" if denied else "waits" if waits else "now",
        risk=considered.risk,
        approvals_needed=considered.risk.approvals_needed,
        guardrails=found,
        now=now,
        after=after,
        changes={at: _change(now.get(at), one) for at, one in after.items() if now.get(at) != one},
    )


def _effective(
    tx: Tx, declared: Declared, considered: Considered, more: tuple[Policy, ...]
) -> dict[str, Setting]:
    case = considered.case
    wish = desired(
        considered.baseline,
        (*case.around.policies, *more),
        None,
        tx.control(declared.name),
        case.around.overrides,
        on_kill=declared.target.on_kill,
        now_us=case.now_us,
    )
    return {at: one.setting for at, one in wish.settings.items()}


def _change(before: Setting | None, after: Setting) -> str:
    was = "as booted" if before is None else before.words()
    return f"{was} → {after.words()}"


def _as_kept(proposal: Proposal) -> Policy:
    """The proposal as if it had been tried and kept, above everything that was kept before."""
    return Policy(
        id="pol_~",
        target=proposal.target,
        knob=proposal.knob,
        scope=proposal.scope,
        before=proposal.before,
        setting=proposal.setting,
        origin=proposal.origin,
        reason=proposal.reason,
        mode="observe",
        state="kept",
        proposed_by=proposal.origin.name,
        created_us=0,
        updated_us=0,
    )
