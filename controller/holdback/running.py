"""The holdback at work in one step: its blocks on the clock, what they showed, what comes next.

A block is opened only where nothing else happens: no trial runs or is about to begin, no emergency
acts, no condition of an emergency rule is true, no drift alarm stands, nothing is frozen, pinned,
forced, held or declared to be changing; and never in the step in which another one ended, so that
rules and the learner are asked in between. Once it is open:

====================================  ==========================================================
an emergency, a rule's condition, an  *lifted*: back to what is kept at once; the block still
alarm                                 counts by what was drawn, for it may be the baseline's doing
a person's hold, kill, override,      *void*: nobody may count what a person did; what he asks for
rollback, revert, new baseline or     is done at once, and stays
declared change; a restart, a gap in
the telemetry, settings not applied
====================================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from controller.config.targets import HoldbackSettings, TargetSettings
from controller.emergencies import emergencies
from controller.holdback.drawing import (
    NOTE,
    PREFIX,
    HeldBlock,
    Holdback,
    HoldbackPlan,
    arm_of,
    digest_of,
    encoded,
    ends_us,
    holdback_of,
    stamp_of,
    strata_of,
)
from controller.holdback.strata import tell_strata
from controller.judge.values import block_values
from controller.memory_wall import guard_wall
from controller.state import Draft, PlantInput, Seen
from controller.trial.blocks import applied_at
from controller.trial.planning import intents_of, reference_of, shortest_block_s, washout_of
from controller.trial.starting import waits_for
from controller.trial.suspending import suspended
from controller.trials import Block
from policies.knobs import KnobSpec
from policies.policy import Policy
from policies.runtime_config import RuntimeConfig
from policies.settings import Setting, effective, place, split
from policies.steps import values_of
from signals.events import MICROS

APPLIED_WITHIN_S: Final = 20.0
"""As for a trial's block."""
VALUED_WITHIN_S: Final = 600.0
"""After a block's end. Without its rows by then it is void: its telemetry does not close."""
MOVING: Final = ("applying", "on_trial", "paused", "in_force", "reverting")
CAP: Final = "active_cap"


def hold_back(draft: Draft, seen: Seen) -> None:
    """Move the holdback on: end and count its blocks, and open the next one where it may."""
    found = holdback_of(draft.noted)
    if found is None and draft.declared.target.holdback is None:
        return
    was = None if found is None else found.open
    if found is not None:
        before = found
        found = tell_strata(draft, _valued(draft, _turned(draft, found, seen), seen))
        if draft.declared.target.holdback is None and not found.blocks:
            del draft.noted[NOTE]
            return
        if found != before:
            draft.noted[NOTE] = encoded(found)
    if was is not None and (found is None or found.open is None):
        return
    opened = _opened(draft, found, seen)
    if opened is not None:
        draft.noted[NOTE] = encoded(opened)


# -- the open block ------------------------------------------------------------------------------


def _turned(draft: Draft, found: Holdback, seen: Seen) -> Holdback:
    """With the open block read back, lifted, cut or ended, whichever it is."""
    now = found.open
    if now is None:
        return found
    shown = seen.observed
    if now.block.began_us is None and shown is not None:
        at_s = applied_at(shown, stamp_of(found.plan, now.block))
        if at_s is not None:
            now = _with(now, began_us=round(at_s * MICROS))
    why = _void(draft, found, now, shown)
    if why is None and _taken_away(found, now, shown):
        why, settle_us = "it was taken off the engine", draft.declared.guardrails.settle_s * MICROS
        found = structs.replace(found, rests_us=draft.now_us + settle_us)
    if why is not None:
        return _last(found, _with(now, void=why, ended_us=draft.now_us, cut=True))
    alarm = _alarm(draft) if now.block.arm == "baseline" and now.lifted is None else None
    if alarm is not None:
        draft.note("holdback.lifted", found.plan.id, block=now.block.index, why=alarm)
        now = structs.replace(now, lifted=alarm)
    over_us = ends_us(found.plan, now.block)
    if over_us is not None and shown is not None and shown.engine_time * MICROS >= over_us:
        now = structs.replace(_with(now, ended_us=over_us), ended_seen_us=draft.now_us)
    return found if now is found.open else _last(found, now)


def _void(draft: Draft, found: Holdback, now: HeldBlock, shown: RuntimeConfig | None) -> str | None:
    """Why the open block can't be counted, if so: never for a reason in its outcome."""
    control = draft.state.control
    if control.hold or control.killed:
        return "held or killed"
    if draft.declared.target.holdback is None:
        return "no holdback is declared any more"
    if any(one.in_force(draft.now_us) for one in draft.overrides.values()):
        return "an override began"
    if (why := suspended(draft)) is not None:
        return why
    if draft.trial is not None and draft.trial.state != "done":
        return "a trial began"
    if shown is not None and shown.incarnation != now.incarnation:
        return "engine restarted"
    if shown is not None and _without_kept(draft, _specs(shown)) != found.settings:
        return "what is kept, or the baseline, has changed"
    waited_s = (draft.now_us - now.block.opened_us) / MICROS
    if now.block.began_us is None and waited_s > APPLIED_WITHIN_S + found.plan.block_s:
        return "it was never read back"
    return None


def _taken_away(found: Holdback, now: HeldBlock, shown: RuntimeConfig | None) -> bool:
    """Whether the baseline was in force and somebody ended it before its time.

    A rollback to what is kept does, and leaves no other trace that the loop would see.
    """
    over_us = ends_us(found.plan, now.block)
    if shown is None or over_us is None or now.lifted is not None or now.block.arm == "candidate":
        return False
    return shown.engine_time * MICROS < over_us and shown.trial != stamp_of(found.plan, now.block)


def _alarm(draft: Draft) -> str | None:
    """What asks for caution now, if anything: then nothing is held back."""
    acting = emergencies(draft)
    if acting:
        return f"emergency {acting[0].id}"
    for rule in draft.declared.rules.rules:
        timer = draft.timers.of.get(rule.id)
        if rule.emergency and timer is not None and timer.truth == "true":
            return f"the condition of emergency rule {rule.id} is true"
    return None if draft.drift.alarm is None else f"drift: {draft.drift.alarm.words}"


def _valued(draft: Draft, found: Holdback, seen: Seen) -> Holdback:
    """With what the blocks showed whose telemetry has closed."""
    if all(one.settled or one.block.ended_us is None for one in found.blocks):
        return found
    return structs.replace(found, blocks=tuple(_value(draft, found, x, seen) for x in found.blocks))


def _value(draft: Draft, found: Holdback, one: HeldBlock, seen: Seen) -> HeldBlock:
    if one.settled or one.block.ended_us is None:
        return one
    rows = seen.held.get(one.block.index)
    if rows is None:
        late = draft.now_us - one.ended_seen_us > VALUED_WITHIN_S * MICROS
        return _with(one, void="its telemetry does not close") if late else one
    if rows.incomplete:
        return _with(one, void="incomplete telemetry")
    values = block_values(found.plan, one.block, rows.requests, rows.seconds)
    if isinstance(values, str):
        return _with(one, void=values)
    return structs.replace(one, values={name: round(x, 9) for name, x in values.values.items()})


# -- the next block ------------------------------------------------------------------------------


def _opened(draft: Draft, found: Holdback | None, seen: Seen) -> Holdback | None:
    """With the next block open; None where none may be opened now."""
    shown, plant, limits = seen.observed, seen.plant, draft.declared.target.holdback
    if shown is None or plant is None or limits is None:
        return None
    if seen.blind:
        return None
    if found is not None and (found.open is not None or draft.now_us < found.rests_us):
        return None
    specs = _specs(shown)
    kept = _without_kept(draft, specs)
    knobs = [specs[split(at)[0]] for at in sorted(kept)]
    if not kept or not _calm(draft, specs):
        return None
    if _too_much(draft, kept):
        return None
    now = _planned(draft, found, plant, limits, knobs)
    if now is None:
        return None
    index, plan = now.next_index, now.plan
    block = Block(
        index=index, arm=arm_of(plan.seed, index, plan.per_stratum), opened_us=draft.now_us
    )
    fresh = HeldBlock(block=block, incarnation=shown.incarnation)
    return structs.replace(now, blocks=(*now.blocks, fresh), next_index=index + 1, settings=kept)


def _calm(draft: Draft, specs: dict[str, KnobSpec]) -> bool:
    """Whether nothing else happens, or is about to."""
    control, trial = draft.state.control, draft.trial
    if control.hold or control.killed or (trial is not None and trial.state != "done"):
        return False
    if draft.in_state(*MOVING) or _alarm(draft) is not None or suspended(draft) is not None:
        return False
    if any(one.in_force(draft.now_us) for one in draft.overrides.values()):
        return False
    return not any(_begins(draft, one, specs) for one in draft.in_state("approved"))


def _begins(draft: Draft, policy: Policy, specs: dict[str, KnobSpec]) -> bool:
    return waits_for(draft, policy, specs) is None


def _specs(shown: RuntimeConfig) -> dict[str, KnobSpec]:
    return {spec.name: spec for spec in shown.knobs}


def _without_kept(draft: Draft, specs: dict[str, KnobSpec]) -> dict[str, Setting]:
    """By place that a kept policy has: what the baseline has there, where that differs."""
    baseline = draft.state.baseline
    folded = effective(baseline, ())
    found: dict[str, Setting] = {}
    for policy in draft.in_state("kept"):
        spec = specs.get(policy.knob)
        if spec is None:
            continue
        at = place(policy.knob, policy.scope)
        below = folded.get(at, folded.get(policy.knob))
        setting = Setting(value=spec.boot) if below is None else below.setting
        if (setting.value, setting.law) != (policy.setting.value, policy.setting.law):
            found[at] = setting
    return found


def _too_much(draft: Draft, settings: dict[str, Setting]) -> bool:
    """Whether the baseline's own cap is predicted to be beyond a wall that memory has met."""
    wall = guard_wall(draft.noted, now_us=draft.now_us, model=draft.declared.plant)
    if wall is None:
        return False
    caps = [values_of(one) for at, one in settings.items() if split(at)[0] == wall.knob]
    return any(value * wall.each_bytes > wall.allowed_bytes for values in caps for value in values)


def _planned(
    draft: Draft,
    found: Holdback | None,
    plant: PlantInput,
    limits: HoldbackSettings,
    knobs: Sequence[KnobSpec],
) -> Holdback | None:
    """The holdback with its plan in force; frozen anew each week, and where declarations changed.

    Only between two strata, unless the declarations changed: then what is not told is dropped.
    """
    declared = _declared(draft.declared.target, limits)
    if found is not None and found.plan.declared == declared:
        same_week = _week(found.plan.frozen_us) == _week(draft.now_us)
        if same_week or found.next_index % found.plan.per_stratum != 0:
            return found
        if found.blocks:
            return None
    plan = _frozen(draft, plant, limits, knobs)
    draft.note("holdback.frozen", plan.id, plan=msgspec.to_builtins(plan))
    return Holdback(plan=plan)


def _frozen(
    draft: Draft, plant: PlantInput, limits: HoldbackSettings, knobs: Sequence[KnobSpec]
) -> HoldbackPlan:
    """``knobs``: those that kept policies move; U's reference is of the cap, where it is one."""
    target = draft.declared.target
    intents = intents_of(draft.declared, plant)
    washout_s = washout_of(draft.declared, max(one.effect_delay_s for one in knobs), plant)
    cap = next((one for one in knobs if one.name == CAP), knobs[0])
    return HoldbackPlan(
        id=draft.new_id(PREFIX),
        target=draft.declared.name,
        seed=draft.rng.getrandbits(32),
        per_stratum=strata_of(limits.share),
        block_s=round(shortest_block_s(intents, washout_s, limits.block_s), 1),
        washout_s=washout_s,
        min_requests=draft.declared.trial.min_requests,
        maximize=target.maximized,
        reference_tokens_per_s=reference_of(draft.declared, cap, plant),
        intents=intents,
        declared=_declared(target, limits),
        frozen_us=draft.now_us,
    )


def _declared(target: TargetSettings, limits: HoldbackSettings) -> str:
    """Of what a plan is made from, as it is declared now."""
    aims = {
        name: (one.slo.attainment, one.slo.ttft_ms) for name, one in sorted(target.intents.items())
    }
    return digest_of(limits, target.maximize, aims)


def _week(at_us: int) -> tuple[int, int]:
    """The ISO year and week in UTC."""
    return datetime.fromtimestamp(at_us / MICROS, UTC).isocalendar()[:2]


def _with(one: HeldBlock, **changes: Any) -> HeldBlock:
    return structs.replace(one, block=structs.replace(one.block, **changes))


def _last(found: Holdback, now: HeldBlock) -> Holdback:
    return structs.replace(found, blocks=(*found.blocks[:-1], now))
