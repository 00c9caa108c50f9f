"""How an emergency ends: when its rule is clear, when it made things worse, or when it expires.

It acted at once, so it is never judged by before and after; what is here only takes it back.
"""

from __future__ import annotations

from controller.reading import undo
from controller.rules.firing import clear_for_s
from controller.state import Draft, Seen
from controller.trial import blocks
from policies.policy import Policy

WORSE_POINTS = 0.05
LOAD_GROWTH = 1.10
EFFECT_DELAYS = 2


def release(draft: Draft, seen: Seen) -> None:
    """Take back emergencies that are over, newest first and one a step; then go on with a trial."""
    for policy in reversed(emergencies(draft)):
        why = _over(draft, seen, policy)
        if why is not None:
            undo(draft, policy, cause=why)
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
    """Why it is over, if it is. It expires in the engine, whose clock a hold stops, not here."""
    past = policy.expires_us is not None and policy.expires_us <= draft.now_us
    if past and not _shown(seen, policy):
        return "expired"
    if policy.state == "applying":
        return None
    if _made_it_worse(draft, seen, policy):
        return "attainment fell further while the load did not grow"
    rule = draft.declared.rules.get(policy.origin.name)
    if rule is None:
        return "its rule is gone"
    clear_s = clear_for_s(draft.timers, rule.id, now_s=draft.now_us / 1e6)
    if clear_s > 0 and clear_s >= rule.for_s:
        return f"clear for {clear_s:.0f} s"
    return None


def _shown(seen: Seen, policy: Policy) -> bool:
    now = None if seen.observed is None else seen.observed.setting(policy.knob)
    return now is not None and now.policy_id == policy.id


def _made_it_worse(draft: Draft, seen: Seen, policy: Policy) -> bool:
    """Attainment more than 5 points down after two effect delays, load up by less than 10 %."""
    if policy.applied_us is None or seen.observed is None:
        return False
    spec = next((s for s in seen.observed.knobs if s.name == policy.knob), None)
    if spec is None or draft.now_us - policy.applied_us < EFFECT_DELAYS * spec.effect_delay_s * 1e6:
        return False
    then, now = policy.evidence, seen.features
    load = "target.arrivals_per_s"
    if now.get(load, 0.0) >= LOAD_GROWTH * then.get(load, float("inf")):
        return False
    names = [name for name in then if name.endswith(".attainment") and name in now]
    return any(now[name] < then[name] - WORSE_POINTS for name in names)
