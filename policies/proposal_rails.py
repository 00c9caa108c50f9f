"""The guardrails that a proposal must pass to become a policy, one function each. Pure.

Each answers words when it stands in the way, "" when not, and its figures in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies import blacklist, laws
from policies.guarding import Case
from policies.lifecycle import LAYERED, State
from policies.limits import HOUR_US, MICROS
from policies.policy import Policy
from policies.steps import direction, step, steps_beyond, tried_values, values_of
from signals.errors import Rejected

MIB = 2**20

Answer = tuple[str, dict[str, float]]

OPEN: frozenset[State] = frozenset(
    {"proposed", "pending", "approved", "applying", "on_trial", "paused", "in_force", "reverting"}
)
WAITING: frozenset[State] = frozenset({"proposed", "pending", "approved"})
REFUSED: frozenset[State] = frozenset({"rejected", "failed", "expired", "reverted"})


def knob(case: Case) -> Answer:
    """The engine has the knob at that scope, and every value is within its range."""
    spec, proposal = case.spec, case.proposal
    if spec is None:
        known = ", ".join(sorted(case.around.specs))
        return f"the engine has no knob {proposal.knob}; it has {known}", {}
    figures = {"low": float(spec.low), "capacity": float(spec.capacity)}
    try:
        spec.check_scope(proposal.scope, field="scope")
        for value in values_of(proposal.setting):
            spec.check(value, field=proposal.knob)
        law = proposal.setting.law
        if law is not None:
            laws.check(law, lambda v, field: spec.check(v, field=field), field=proposal.knob)
    except Rejected as error:
        allowed = "" if error.allowed is None else f"; allowed {error.allowed}"
        return f"{error.detail}{allowed}", figures
    return "", figures


def bounds(case: Case) -> Answer:
    """Every value is within the bounds that a person declared for this knob."""
    limits, values = case.limits, values_of(case.proposal.setting)
    if not values or (limits.low is None and limits.high is None):
        return "", {}
    low = min(values) if limits.low is None else limits.low
    high = max(values) if limits.high is None else limits.high
    figures = {"low": float(low), "high": float(high)}
    bad = [value for value in values if not low <= value <= high]
    if not bad:
        return "", figures
    words = f"{case.proposal.place} {bad[0]} is outside the declared bounds {low}..{high}"
    return words, {**figures, "value": float(bad[0])}


def wall(case: Case) -> Answer:
    """No value is predicted to need the memory at which the engine has died before."""
    known, values = case.around.wall, values_of(case.proposal.setting)
    if known is None or known.knob != case.proposal.knob or not values:
        return "", {}
    before = max(values_of(case.proposal.before), default=0)
    needed = max(values) * known.each_bytes
    figures = {
        "needed_bytes": float(needed),
        "allowed_bytes": float(known.allowed_bytes),
        "wall_bytes": float(known.wall_bytes),
        "context_tokens": known.context_tokens,
    }
    if needed <= known.allowed_bytes or max(values) <= before:
        return "", figures
    words = (
        f"{case.proposal.place} {max(values)} would take {needed / MIB:.3g} MiB of KV memory;"
        f" {known.allowed_bytes / MIB:.3g} MiB is allowed below {known.wall_bytes / MIB:.3g} MiB,"
        " where memory was exhausted before (a person may force it)"
    )
    return words, figures


def ladder(case: Case) -> Answer:
    """Values are on the ladder; a rule's setpoint goes little beyond what was in force."""
    proposal, steps_of = case.proposal, case.limits.ladder
    if not steps_of:
        return "", {}
    before, after = values_of(proposal.before), values_of(proposal.setting)
    off = [value for value in after if value not in steps_of and value not in before]
    if off:
        words = f"{proposal.place} {off[0]} is not on the ladder {list(steps_of)}"
        return words, {"value": float(off[0])}
    if proposal.origin.kind != "rule" or proposal.emergency or proposal.setting.value is None:
        return "", {}
    tried = {*before, *tried_values(case.here, proposal.knob, proposal.scope)}
    steps = steps_beyond(proposal.setting.value, tried, steps_of)
    allowed = case.limits.ladder_steps
    figures = {"steps": float(steps), "allowed": float(allowed)}
    if steps <= allowed:
        return "", figures
    words = f"{proposal.words()}: {steps} ladder values beyond what was in force; allowed {allowed}"
    return words, figures


def longest_step(case: Case) -> Answer:
    """One change goes at most so many ladder values."""
    proposal, allowed = case.proposal, case.limits.step
    steps = step(proposal.before, proposal.setting, case.limits.ladder)
    figures = {"steps": float(steps), "allowed": float(allowed)}
    if steps <= allowed:
        return "", figures
    return f"{proposal.words()}: {steps} ladder values at once; allowed {allowed}", figures


def duplicate(case: Case) -> Answer:
    """Something changes, and nothing else is open on the place.

    A person may queue another setting behind an open one; an emergency passes ordinary policies
    and the release of another.
    """
    proposal = case.proposal
    if proposal.setting == proposal.before:
        return f"{proposal.place} has this setting already", {}
    if any(other.place == proposal.place for other in case.beside):
        return f"{proposal.place} already has a proposal in this step", {}
    for policy in case.here:
        if policy.state not in OPEN or (proposal.emergency and not policy.emergency):
            continue
        if proposal.emergency and policy.eases is not None:
            continue
        if case.who == "person" and policy.setting != proposal.setting:
            continue
        same = "the same setting" if policy.setting == proposal.setting else "the same place"
        return f"{policy.id} ({policy.words()}) is {policy.state} on {same}", {}
    return "", {}


def flip(case: Case) -> Answer:
    """The direction does not change so soon after the last change that still stands."""
    proposal, flip_s = case.proposal, case.limits.flip_s
    way = direction(proposal.before, proposal.setting)
    opposite = {"up": "down", "down": "up"}.get(way)
    for policy in case.here:
        standing = policy.state in LAYERED and not policy.emergency
        if not standing or policy.applied_us is None:
            continue
        left_s = flip_s - (case.now_us - policy.applied_us) / MICROS
        if direction(policy.before, policy.setting) == opposite and left_s > 0:
            words = f"{policy.id} ({policy.words()}) went the other way; again in {left_s:.0f} s"
            return words, {"left_s": left_s, "flip_s": flip_s}
    return "", {"flip_s": flip_s}


def cooldown(case: Case) -> Answer:
    """The identical change was not refused or undone just now."""
    for policy in case.here:
        if policy.setting != case.proposal.setting or not _ended_badly(policy, case):
            continue
        left_s = case.limits.cooldown_s - (case.now_us - policy.updated_us) / MICROS
        if left_s > 0:
            ended = f"{policy.state} ({policy.verdict})" if policy.verdict else policy.state
            words = f"the same change, {policy.id}, ended {ended}; again in {left_s:.0f} s"
            return words, {"left_s": left_s}
    return "", {}


def _ended_badly(policy: Policy, case: Case) -> bool:
    """An emergency's release and expiry are its normal end, so they do not hold the next one up."""
    if case.proposal.emergency:
        return policy.state == "rejected" or (
            policy.state in REFUSED and policy.verdict == "HARMED"
        )
    return policy.state in REFUSED


def blacklisted(case: Case) -> Answer:
    """The move, in this direction on this place, was not undone lately."""
    undone = blacklist.offences(case.proposal, case.others)
    left_s = blacklist.left_s(case.proposal, undone, case.limits, case.now_us)
    figures = {"undone": float(len(undone)), "left_s": max(0.0, left_s)}
    if left_s <= 0:
        return "", figures
    way = direction(case.proposal.before, case.proposal.setting)
    last = max(undone, key=lambda policy: policy.updated_us)
    words = f"{len(undone)} moves {way} were undone here, last {last.id}; again in {left_s:.0f} s"
    return words, figures


def pending(case: Case) -> Answer:
    """Not too many wait already, for a person or for their turn."""
    waiting = sum(policy.state in WAITING for policy in case.others)
    waiting += len([other for other in case.beside if not other.emergency])
    allowed = case.limits.max_pending
    figures = {"pending": float(waiting), "allowed": float(allowed)}
    words = f"{waiting} policies already wait for a person or their turn; allowed {allowed}"
    return (words if waiting >= allowed else ""), figures


def rate(case: Case) -> Answer:
    """The target was not changed too often within the hour."""
    applied, allowed = len(_applied(case.others, case.now_us)), case.limits.max_per_hour
    applied += len([other for other in case.beside if not other.emergency])
    figures = {"applied": float(applied), "allowed": float(allowed)}
    words = f"{applied} policies were applied within the hour; allowed {allowed}"
    return (words if applied >= allowed else ""), figures


def place_rate(case: Case) -> Answer:
    """The place does not move too many ladder values within the hour."""
    limits, proposal = case.limits, case.proposal
    moved = sum(step(p.before, p.setting, limits.ladder) for p in _applied(case.here, case.now_us))
    wanted = step(proposal.before, proposal.setting, limits.ladder)
    allowed = limits.steps_per_hour
    figures = {"moved": float(moved), "steps": float(wanted), "allowed": float(allowed)}
    words = f"{proposal.place} moved {moved} ladder values within the hour; {wanted} more exceed"
    return (f"{words} {allowed}" if moved + wanted > allowed else ""), figures


def dwell(case: Case) -> Answer:
    """The place stays as it is for a while after each change."""
    changed = [at_us for policy in case.here for at_us in _changed_us(policy)]
    if not changed:
        return "", {"dwell_s": case.limits.dwell_s}
    left_s = case.limits.dwell_s - (case.now_us - max(changed)) / MICROS
    figures = {"left_s": max(0.0, left_s), "dwell_s": case.limits.dwell_s}
    words = f"{case.proposal.place} changed a moment ago; again in {left_s:.0f} s"
    return (words if left_s > 0 else ""), figures


def blast(case: Case) -> Answer:
    """A change reaches only so many replicas, and policies hold only so many places."""
    limits, place = case.limits, case.proposal.place
    kept = {policy.place for policy in case.others if policy.state == "kept"} | {place}
    figures = {
        "replicas": float(case.around.replicas),
        "max_replicas": float(limits.max_replicas),
        "places": float(len(kept)),
        "max_kept": float(limits.max_kept),
    }
    if case.around.replicas > limits.max_replicas:
        reached = f"{case.around.replicas} replicas; allowed {limits.max_replicas}"
        return f"it would reach {reached}", figures
    if len(kept) > limits.max_kept:
        return f"{len(kept)} places would be off the baseline; allowed {limits.max_kept}", figures
    return "", figures


def _applied(policies: Iterable[Policy], now_us: int) -> list[Policy]:
    since_us = now_us - HOUR_US
    return [
        policy
        for policy in policies
        if policy.applied_us is not None and policy.applied_us > since_us and policy.eases is None
    ]


def _changed_us(policy: Policy) -> list[int]:
    """When the engine changed by it: on its way in, and on its way out."""
    if policy.applied_us is None:
        return []
    back = policy.undo_us is not None and policy.state in REFUSED
    return [policy.applied_us, policy.updated_us] if back else [policy.applied_us]
