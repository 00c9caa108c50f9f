"""Proposals of rules, plant model and learner, through the guardrails, into their knob's mode.

Proposing is all that rules and models may do: ``observe`` records what they would do, ``approve``
asks a person, only ``auto`` goes on by itself.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from controller.learning.deciding import draws
from controller.learning.notes import judged_lately
from controller.limiting import guards_of, limits_of, risk_of
from controller.memory_wall import within_wall
from controller.plant import laws as plant
from controller.rule_judging import Toss, begin_episode, only_proposes, toss
from controller.rules.firing import Fired, fire
from controller.rules.moves import moved
from controller.rules.safety import against
from controller.state import LOOP, Draft, Seen
from controller.store.port import Decision
from controller.trial.starting import around, baseline_below
from policies.guardrails import OPEN, Denied, admit
from policies.knobs import KnobSpec
from policies.policy import Mode, Origin, Policy
from policies.proposal import Proposal
from policies.risk import CLASSES
from policies.settings import Setting
from signals.events import MICROS

SUSPENDED = "; it only proposes: as an emergency it was found to do harm"


def propose(draft: Draft, seen: Seen) -> None:
    """Let rules, plant and learner propose, and put what the guardrails admit on its way."""
    if seen.observed is None:
        return
    fired, draft.timers = fire(
        draft.declared.rules, draft.timers, seen.features, now_s=draft.now_us / 1e6
    )
    specs = {spec.name: spec for spec in seen.observed.knobs}
    proposals = [p for one in fired for p in _of_rule(draft, seen, one, specs)]
    if seen.plant is not None:
        proposals += _of_plant(draft, seen, specs)
    turns = draws(draft, seen, taken={one.place for one in proposals})
    proposals += [one.proposal for one in turns if one.proposal is not None]
    draft.decisions += [one.decision for one in turns if one.proposal is None]
    if not proposals:
        return
    decisions = {id(one.proposal): one.decision for one in turns}
    admitted, denied = admit(
        proposals,
        around(draft, specs),
        limits=lambda one: limits_of(draft.declared, one.knob, specs.get(one.knob)),
        now_us=draft.now_us,
    )
    for proposal in admitted:
        tossed = _toss(draft, seen, proposal)
        policy = enter(draft, proposal, specs[proposal.knob], tossed=tossed)
        by_learner = decisions.get(id(proposal))
        decide(draft, seen, proposal, policy=policy, drawn=by_learner, tossed=tossed)
    for one in denied:
        _tell(draft, seen, one, drawn=decisions.get(id(one.proposal)))


def _tell(draft: Draft, seen: Seen, denied: Denied, *, drawn: Decision | None) -> None:
    """Record a denial, once for each change and guardrail: it may come again every second.

    What a learner drew is recorded whatever becomes of it.
    """
    proposal = denied.proposal
    key = f"{proposal.origin.kind}:{proposal.origin.name} {proposal.words()} {denied.guardrail}"
    if draft.tell(key) or drawn is not None:
        decide(draft, seen, proposal, denied=denied, drawn=drawn)


def _toss(draft: Draft, seen: Seen, proposal: Proposal) -> Toss | None:
    """The coin of an emergency that begins by itself; a person who must approve it delays it."""
    if not proposal.emergency or mode_of(draft, proposal.knob) != "auto":
        return None
    return toss(draft, seen, proposal.origin.name)


def enter(
    draft: Draft, proposal: Proposal, spec: KnobSpec, *, tossed: Toss | None = None
) -> Policy:
    """Bear the policy and move it as far as its knob's mode, and its risk, allow."""
    mode, limits = mode_of(draft, proposal.knob), draft.declared
    found = risk_of(
        limits,
        proposal,
        spec,
        policies=draft.policies.values(),
        baseline=draft.state.baseline,
    )
    lives_s = limits.guardrails.emergency_s if proposal.emergency else limits.trial.proposal_ttl_s
    policy = draft.bear(
        Policy(
            id=draft.new_id("pol"),
            target=draft.declared.name,
            knob=proposal.knob,
            scope=proposal.scope,
            before=proposal.before,
            setting=proposal.setting,
            origin=proposal.origin,
            reason=proposal.reason,
            evidence=dict(proposal.evidence),
            expected=proposal.expected,
            guards=guards_of(limits, proposal.guards),
            primary=proposal.primary,
            risk=found.risk,
            risk_why=found.why,
            lowers_risk=found.lowers,
            approvals_needed=found.approvals_needed,
            emergency=proposal.emergency,
            review=proposal.review,
            mode=mode,
            proposed_by=f"{proposal.origin.kind}:{proposal.origin.name}",
            created_us=draft.now_us,
            updated_us=draft.now_us,
            expires_us=draft.now_us + lives_s * MICROS,
            begins_us=None if tossed is None else tossed.begins_us(draft.now_us),
        )
    )
    if tossed is not None:
        begin_episode(draft, policy, tossed)
    if mode == "observe":
        return draft.move(policy, "observed", cause="mode observe: this is what it would do")
    if mode == "approve" or not _alone(draft, policy):
        return draft.move(policy, "pending")
    return draft.move(policy, "approved", decided_by=LOOP)


def _alone(draft: Draft, policy: Policy) -> bool:
    """Whether mode ``auto`` begins it without a person; emergencies must not wait for one."""
    most = draft.declared.guardrails.auto_risk
    return policy.emergency or CLASSES.index(policy.risk) <= CLASSES.index(most)


def mode_of(draft: Draft, knob: str) -> Mode:
    """The knob's mode; ``observe`` while somebody else has set it."""
    if knob in draft.overridden():
        return "observe"
    return draft.declared.target.knobs.mode(knob, draft.state.modes.get(knob))


def _of_rule(draft: Draft, seen: Seen, fired: Fired, specs: dict[str, KnobSpec]) -> list[Proposal]:
    """What a rule that fired asks for, with ``up`` and ``down`` as one ladder value."""
    found = []
    for knob, move in fired.rule.propose.items():
        spec = specs.get(knob)
        now = None if seen.observed is None else seen.observed.setting(knob)
        if spec is None or now is None:
            continue
        value = moved(move, now.value, _ladder(draft, spec))
        if value is None or value == now.value:
            continue
        emergency = fired.rule.emergency and not only_proposes(draft, fired.rule)
        if fired.rule.emergency and _against(draft, knob, now.value, value):
            continue
        found.append(
            Proposal(
                target=draft.declared.name,
                knob=knob,
                setting=Setting(value=value),
                before=Setting(value=None if now.law else now.value, law=now.law),
                origin=Origin(kind="rule", name=fired.rule.id, version=fired.rule.digest),
                reason=fired.reason + ("" if emergency == fired.rule.emergency else SUSPENDED),
                evidence=dict(fired.evidence),
                emergency=emergency,
            )
        )
    return found


def _against(draft: Draft, knob: str, before: int, after: int) -> bool:
    """Whether an emergency, that acts first, would leave the direction declared safer."""
    safer = draft.declared.target.knobs.of(knob).safer
    return against(safer, before=before, after=after)


def _of_plant(draft: Draft, seen: Seen, specs: dict[str, KnobSpec]) -> list[Proposal]:
    """The plant's law for the cap, unless one is there, on its way, or was just shown.

    Once trials have taught what a law of it does, proposing it again is the learner's to decide.
    """
    spec = specs.get("active_cap")
    if spec is None or seen.plant is None or draft.in_knob(spec.name, OPEN):
        return []
    before = baseline_below(draft, spec.name, spec.boot)
    if before.law is not None or _shown(draft, spec.name):
        return []
    found = plant.propose_law(
        draft.declared.name,
        draft.declared.target.intents,
        seen.plant,
        spec=spec,
        ladder=within_wall(draft, _ladder(draft, spec), before.value, seen.plant),
        before=before,
        limits=draft.declared.trial,
        model=draft.declared.plant,
    )
    if not isinstance(found, Proposal) or judged_lately(draft, found.place, found.setting):
        return []
    return [found]


def _shown(draft: Draft, knob: str) -> bool:
    """Whether observe mode has recorded such a proposal of the plant within the cooldown."""
    if mode_of(draft, knob) != "observe":
        return False
    since_us = draft.now_us - draft.declared.guardrails.cooldown_s * 1_000_000
    observed = draft.in_knob(knob, frozenset({"observed"}))
    return any(p.origin.kind == "plant" and p.created_us > since_us for p in observed)


def _ladder(draft: Draft, spec: KnobSpec) -> tuple[int, ...]:
    return draft.declared.target.knobs.of(spec.name).values(spec)


def decide(
    draft: Draft,
    seen: Seen,
    proposal: Proposal,
    *,
    denied: Denied | None = None,
    policy: Policy | None = None,
    drawn: Decision | None = None,
    tossed: Toss | None = None,
) -> None:
    """Store the decision so that it can be replayed: context, actions, propensity.

    ``drawn``: a learner's, which has all that but what became of it. ``tossed``: an emergency's
    coin, between acting at once and later.
    """
    if drawn is not None:
        draft.decisions.append(structs.replace(drawn, **_became(denied, policy)))
        return
    chosen = f"{proposal.place}={proposal.setting.words()}"
    context = {name: value for name, value in seen.features.items() if name in proposal.evidence}
    draft.decisions.append(
        Decision(
            id=draft.new_id("dec"),
            target=draft.declared.name,
            at_us=draft.now_us,
            source=f"{proposal.origin.kind}:{proposal.origin.name}",
            context=context | proposal.evidence,
            actions=(chosen,) if tossed is None else tossed.actions(chosen),
            chosen=chosen if tossed is None else tossed.chosen(chosen),
            propensity=1.0 if tossed is None else tossed.propensity,
            model=proposal.origin.version,
            seed=0,
            cursor=seen.cursor,
            **_became(denied, policy),
        )
    )


def _became(denied: Denied | None, policy: Policy | None) -> dict[str, Any]:
    """The columns of a decision that say what became of it."""
    return {
        "policy_id": None if policy is None else policy.id,
        "denied": None if denied is None else denied.words,
        "guardrail": None if denied is None else denied.guardrail,
        "figures": {} if denied is None else denied.figures,
    }
