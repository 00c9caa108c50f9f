"""How an emergency ends: step by step when its rule is clear, at once when it made things worse.

::

    cap   64 ─┐                          ┌─ 64   a step is one ladder value, once the rule has been
              │                     ┌─32─┘       known false for its ``for`` time, with features
           8  └────── acts ────16───┘            that saw nothing of the time before the last step
              fires        clear ► one step ► still clear ► …

Each step is a policy of its own that ``eases`` the one before and ends when that would have. When
the condition comes back, the release stops where it is, and the rule may fire again.

It acted at once, so it is never judged by before and after; what is here only takes it back. What
judges its rule is in ``rule_judging``.
"""

from __future__ import annotations

import msgspec

from controller.reading import undo
from controller.rules.firing import Rule, clear_for_s
from controller.state import LOOP, Draft, Seen
from controller.trial import blocks
from controller.trial.starting import baseline_below
from policies.knobs import KnobSpec
from policies.policy import Policy
from policies.settings import Setting
from signals.events import MICROS

WORSE_POINTS = 0.05
LOAD_GROWTH = 1.10
EFFECT_DELAYS = 2
SEEN_S = 10.0
"""What rules see is of so long: sooner after a step it is of the time before, in part."""


def release(draft: Draft, seen: Seen) -> None:
    """Take back emergencies that are over, newest first and one a step; then go on with a trial."""
    for policy in reversed(emergencies(draft)):
        why = _over(draft, seen, policy)
        clear = None if why is not None else _clear(draft, seen, policy)
        if why is not None:
            undo(draft, policy, cause=why)
            break
        if clear is not None:
            _ease(draft, seen, policy, clear)
            break
    trial = draft.trial
    if trial is None or trial.paused_by != "emergency" or emergencies(draft):
        return
    policy = draft.policies[trial.plan.policy_id]
    if policy.state == "paused":
        draft.move(policy, "on_trial", cause=None)
    draft.trial = blocks.resume(trial, now_us=draft.now_us)


def emergencies(draft: Draft) -> list[Policy]:
    """Emergencies that act or are about to, oldest first."""
    return [p for p in draft.in_state("applying", "in_force") if p.emergency]


def _over(draft: Draft, seen: Seen, policy: Policy) -> str | None:
    """Why it is over as a whole. It expires in the engine, whose clock a hold stops, not here."""
    past = policy.expires_us is not None and policy.expires_us <= draft.now_us
    if past and not _shown(seen, policy):
        return "expired"
    if policy.state == "applying":
        return None
    if _made_it_worse(draft, seen, policy):
        return "attainment fell further while the load did not grow"
    if draft.declared.rules.get(policy.origin.name) is None:
        return "its rule is gone"
    return None


def _clear(draft: Draft, seen: Seen, policy: Policy) -> str | None:
    """Why a step back is due: the rule is clear, and the last step has had time to show."""
    rule = draft.declared.rules.get(policy.origin.name)
    if rule is None or policy.state != "in_force" or _beneath(draft, policy):
        return None
    clear_s = clear_for_s(draft.timers, rule.id, now_s=draft.now_us / MICROS)
    if clear_s <= 0 or clear_s < rule.for_s or not _rested(draft, seen, policy, rule):
        return None
    return f"clear for {clear_s:.0f} s"


def _beneath(draft: Draft, policy: Policy) -> bool:
    """Whether another emergency acts over it: a step back, being newer, would lie on top."""
    return any(one.place == policy.place and one.id > policy.id for one in emergencies(draft))


def _rested(draft: Draft, seen: Seen, policy: Policy, rule: Rule) -> bool:
    """Whether the place has been as it is for long enough; the first step only waits to be clear.

    ``applied_us`` of what eases is the last step's; an emergency above it may have ended since.
    """
    ended = [
        one.undo_us or 0
        for one in draft.policies.values()
        if one.emergency and one.place == policy.place and one.origin.name == rule.id
    ]
    last_us = max([policy.applied_us or 0 if policy.eases else 0, *ended])
    spec = _spec(seen, policy.knob)
    shows_s = SEEN_S + (0.0 if spec is None else EFFECT_DELAYS * spec.effect_delay_s)
    return (draft.now_us - last_us) / MICROS >= shows_s + rule.for_s


def _ease(draft: Draft, seen: Seen, policy: Policy, why: str) -> None:
    """One ladder value towards what is below it; the last step takes the emergency away."""
    value = _step_back(draft, seen, policy)
    if value is None or draft.covering(policy.knob, policy.scope) is not None:
        undo(draft, policy, cause=why)
        return
    step = draft.bear(
        msgspec.structs.replace(
            policy,
            id=draft.new_id("pol"),
            before=policy.setting,
            setting=msgspec.structs.replace(policy.setting, value=value),
            reason=f"{why}: one step back from {policy.id}",
            evidence={n: seen.features[n] for n in policy.evidence if n in seen.features},
            eases=policy.id,
            state="proposed",
            cause=None,
            proposed_by=LOOP,
            decided_by=None,
            created_us=draft.now_us,
            updated_us=draft.now_us,
            applied_us=None,
            begins_us=None,
            rev=0,
        )
    )
    draft.move(draft.move(step, "approved", decided_by=LOOP), "applying")
    undo(draft, policy, cause=f"{why}: eased by {step.id}")


def _step_back(draft: Draft, seen: Seen, policy: Policy) -> int | None:
    """The next ladder value on the way to what is below; None: that itself, or a law."""
    spec = _spec(seen, policy.knob)
    now = policy.setting.value
    if spec is None or now is None:
        return None
    below = _below(draft, policy, spec).value
    if below is None:
        return None
    ladder = draft.declared.target.knobs.of(spec.name).values(spec)
    between = [one for one in ladder if min(now, below) < one < max(now, below)]
    return None if not between else between[0] if now < below else between[-1]


def _below(draft: Draft, policy: Policy, spec: KnobSpec) -> Setting:
    """What the place has without it: another emergency, else what is there without trials."""
    others = [
        one
        for one in emergencies(draft)
        if one.place == policy.place and one.id < policy.id and one.id != policy.eases
    ]
    if others:
        return others[-1].setting
    return baseline_below(draft, policy.knob, spec.boot, policy.scope)


def _shown(seen: Seen, policy: Policy) -> bool:
    now = None if seen.observed is None else seen.observed.setting(policy.knob)
    return now is not None and now.policy_id == policy.id


def _spec(seen: Seen, knob: str) -> KnobSpec | None:
    if seen.observed is None:
        return None
    return next((spec for spec in seen.observed.knobs if spec.name == knob), None)


def _made_it_worse(draft: Draft, seen: Seen, policy: Policy) -> bool:
    """Attainment more than 5 points down after two effect delays, load up by less than 10 %.

    What only eases is no act: when attainment falls by it, the rule fires again.
    """
    spec = _spec(seen, policy.knob)
    if policy.applied_us is None or policy.eases is not None or spec is None:
        return False
    if draft.now_us - policy.applied_us < EFFECT_DELAYS * spec.effect_delay_s * MICROS:
        return False
    then, now = policy.evidence, seen.features
    load = "target.arrivals_per_s"
    if now.get(load, 0.0) >= LOAD_GROWTH * then.get(load, float("inf")):
        return False
    names = [name for name in then if name.endswith(".attainment") and name in now]
    return any(now[name] < then[name] - WORSE_POINTS for name in names)
