"""A change by hand: the policy it becomes, what it takes the place of, what a denial answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from controller.baselines import baseline_in_force
from controller.considering import Considered
from controller.following import MANY, said
from controller.limiting import below, same
from controller.state import Declared
from controller.store.port import Decision, Principal, Tx
from policies.guardrails import Denied
from policies.ids import new_id
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.policy import Guard, Mode, Origin, Policy
from policies.proposal import Proposal
from policies.settings import Setting
from signals.errors import Conflict, Rejected
from signals.events import MICROS

MAX_LISTED: Final = 20
"""Metrics named in an answer."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What a person asks for.

    ``supersede``: what waits for a person on the same place gives way to it. ``guards``: declared
    metrics that it is confirmed by, each with its margin; ``primary``: one that it is tried by
    instead of the target's utility, with the difference that is to be found.
    """

    target: str
    knob: str
    setting: Setting
    reason: str
    scope: str = TARGET_SCOPE
    supersede: bool = False
    guards: tuple[Guard, ...] = ()
    primary: Guard | None = None

    def proposal(self, spec: KnobSpec, by: Principal) -> Proposal:
        """As the rest of the house has it; ``before`` is found later. Raises ``Rejected``."""
        return Proposal(
            target=self.target,
            knob=self.knob,
            scope=self.scope,
            setting=self.setting,
            before=Setting(value=spec.boot),
            origin=Origin(kind="person", name=by.name, version=by.id),
            reason=said(self.reason),
            guards=self.guards,
            primary=self.primary,
        )


def check_metrics(tx: Tx, what: Wanted) -> None:
    """Raise ``Rejected`` where users' feedback is asked for by a name that is not in force."""
    known = [one.name for one in tx.definitions()]
    asked = [*what.guards, *([] if what.primary is None else [what.primary])]
    for guard in asked:
        if guard.metric not in known:
            raise Rejected(
                f"no metric {guard.metric!r} is in force",
                field="metric",
                value=guard.metric,
                allowed=known[:MAX_LISTED],
            )


def by_hand(
    declared: Declared,
    found: Considered,
    modes: Mapping[str, Mode],
    *,
    by: Principal,
    now_us: int,
) -> Policy:
    """The policy of a proposal that was considered, new and not stored yet."""
    proposal, risk = found.proposal, found.risk
    return Policy(
        id=new_id("pol", now_us, os.urandom(8)),
        target=proposal.target,
        knob=proposal.knob,
        scope=proposal.scope,
        before=proposal.before,
        setting=proposal.setting,
        origin=proposal.origin,
        reason=proposal.reason,
        guards=proposal.guards,
        primary=proposal.primary,
        risk=risk.risk,
        risk_why=risk.why,
        lowers_risk=risk.lowers,
        approvals_needed=risk.approvals_needed,
        mode=declared.target.knobs.mode(proposal.knob, modes.get(proposal.knob)),
        proposed_by=by.id,
        created_us=now_us,
        updated_us=now_us,
        expires_us=now_us + declared.trial.proposal_ttl_s * MICROS,
    )


def waiting_on(tx: Tx, wanted: Proposal) -> list[Policy]:
    """What waits for a person on the same place."""
    pending = tx.policies(target=wanted.target, states=("pending",), limit=MANY)
    return [policy for policy in pending if policy.place == wanted.place]


def give_way(
    tx: Tx, yields: Iterable[Policy], newer: Policy, *, by: Principal, now_us: int
) -> None:
    """Those are superseded by a newer one."""
    for policy in yields:
        cause = f"superseded by {newer.id}, proposed by {by.name}"
        tx.move(policy, "superseded", actor=by.id, at_us=now_us, cause=cause)


def denial(denied: Denied) -> Conflict:
    """What the person is told: the guardrail by name, and its figures."""
    return Conflict(
        f"guardrail {denied.guardrail}: {denied.words}",
        field="guardrail",
        value=denied.guardrail,
        allowed=denied.figures or None,
    )


def decision(denied: Denied, *, by: Principal, now_us: int) -> Decision:
    """The denial, recorded like those of rules and models."""
    proposal = denied.proposal
    chosen = f"{proposal.place}={proposal.setting.words()}"
    return Decision(
        id=new_id("dec", now_us, os.urandom(8)),
        target=proposal.target,
        at_us=now_us,
        source=f"person:{by.name}",
        context={},
        actions=(chosen,),
        chosen=chosen,
        propensity=1.0,
        model=by.id,
        seed=0,
        cursor=0,
        denied=denied.words,
        guardrail=denied.guardrail,
        figures=denied.figures,
    )


def check_unmoved(tx: Tx, declared: Declared, policy: Policy, boot: int | None) -> None:
    """Raise ``Conflict`` when the place is no longer what the approver was shown."""
    if boot is None or policy.emergency:
        return
    baseline = baseline_in_force(tx.baseline(policy.target), declared.target)
    kept = tx.policies(target=policy.target, states=("kept",), limit=MANY)
    now = below(baseline, kept, policy.knob, policy.scope, boot)
    if not same(policy.before, now):
        raise Conflict(
            f"{policy.place} has moved since it was proposed: it is {now.words()} now,"
            f" not {policy.before.words()}; propose it anew",
            field="before",
            value=policy.before.words(),
            allowed=now.words(),
        )
