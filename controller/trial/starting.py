"""Approved policies begin: emergencies at once, everything else as a trial, one per target."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec import structs

from controller.holdback.drawing import left_s
from controller.limiting import Alarms, around_of, below, limits_of, same
from controller.memory_wall import guard_wall
from controller.rules.firing import clear_for_s
from controller.state import LOOP, Draft, PlantInput, Seen
from controller.trial import blocks, budget
from controller.trial.feedback import known_feedback, with_feedback
from controller.trial.planning import plan
from controller.trial.splitting import left_out, split_now
from controller.trials import Block, Split, Trial, TrialPlan
from policies.guardrails import Around, Finding, may_begin
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.policy import Policy
from policies.runtime_config import Arm
from policies.settings import Setting
from signals.events import MICROS


def start(draft: Draft, seen: Seen) -> None:
    """Begin what is approved, oldest first, where nothing stands in the way; emergencies first."""
    if seen.observed is None:
        return
    specs = {spec.name: spec for spec in seen.observed.knobs}
    supersede(draft, specs)
    heed_modes(draft)
    able = draft.in_state("approved")
    for policy in (p for p in able if p.emergency and not _delayed(draft, p)):
        if waits_for(draft, policy, specs) is None:
            draft.move(policy, "applying")
            _interrupt(draft, policy, seen)
    for policy in (p for p in able if not p.emergency):
        waits = waits_for(draft, policy, specs)
        if waits is None:
            _start_trial(draft, policy, seen)
        else:
            _tell(draft, policy, waits)


def _delayed(draft: Draft, policy: Policy) -> bool:
    """Whether its coin fell so that it acts later; clear by then, it does not act at all."""
    if policy.begins_us is None:
        return False
    if draft.now_us < policy.begins_us:
        return True
    if clear_for_s(draft.timers, policy.origin.name, now_s=draft.now_us / MICROS) <= 0:
        return False
    draft.move(policy, "superseded", cause="clear before its delay was over")
    return True


def supersede(draft: Draft, specs: Mapping[str, KnobSpec]) -> None:
    """A yes is for a change from what was shown: once the place has moved, it is void."""
    for policy in draft.in_state("pending", "approved"):
        spec = specs.get(policy.knob)
        if spec is None or policy.emergency:
            continue
        now = baseline_below(draft, policy.knob, spec.boot, policy.scope)
        if not same(policy.before, now):
            why = f"{policy.place} has moved: it was {policy.before.words()}, it is {now.words()}"
            draft.move(policy, "superseded", cause=why)


def heed_modes(draft: Draft) -> None:
    """What mode ``auto`` approved and has not begun yet is void once a person lowers the mode."""
    for policy in draft.in_state("approved"):
        stored = draft.state.modes.get(policy.knob)
        mode = draft.declared.target.knobs.mode(policy.knob, stored)
        if policy.decided_by == LOOP and mode != "auto":
            cause = f"the mode of {policy.knob} is {mode} now"
            draft.move(policy, "superseded", cause=cause)


def around(draft: Draft, specs: Mapping[str, KnobSpec]) -> Around:
    """What is around every proposal of this step."""
    found = around_of(
        draft.declared,
        draft.policies.values(),
        specs,
        overrides=draft.overrides.values(),
        changes=draft.state.changes,
        trial=draft.trial,
        budget=budget.budget_of(draft.declared.trial, draft.noted, now_us=draft.now_us),
        alarms=Alarms(
            drift=draft.drift.alarm,
            wall=guard_wall(draft.noted, now_us=draft.now_us, model=draft.declared.plant),
        ),
    )
    return structs.replace(found, held_s=left_s(draft.noted, draft.now_us))


def baseline_below(draft: Draft, knob: str, boot: int, scope: str = TARGET_SCOPE) -> Setting:
    """What a place has without any trial: baseline and kept policies, else the boot value."""
    return below(draft.state.baseline, draft.in_state("kept"), knob, scope, boot)


def waits_for(draft: Draft, policy: Policy, specs: Mapping[str, KnobSpec]) -> Finding | None:
    """What an approved policy waits for, if anything."""
    limits = limits_of(draft.declared, policy.knob, specs.get(policy.knob))
    return may_begin(policy, around(draft, specs), limits=limits, now_us=draft.now_us)


def _tell(draft: Draft, policy: Policy, waits: Finding) -> None:
    """Record what an approved policy waits for, once for each guardrail."""
    if not draft.tell(f"{policy.id} waits {waits.guardrail}"):
        return
    draft.note(
        "guardrail.waits",
        policy.id,
        guardrail=waits.guardrail,
        words=waits.words,
        figures=waits.figures,
    )


def _start_trial(draft: Draft, policy: Policy, seen: Seen) -> None:
    """Freeze the plan and open the first block; or fail with the reason it can't be planned.

    Not in the step that ended another trial: a step writes one trial, and that one's end must be.
    """
    spec = _spec(seen, policy.knob)
    if spec is None or seen.plant is None or draft.state.trial is not None:
        return
    trial_id, seed = draft.new_id("tri"), _seed(draft, policy)
    split = split_now(policy, draft.declared, spec, seen, seed=seed)
    frozen = planned(draft, policy, seen, seen.plant, trial_id=trial_id, seed=seed, split=split)
    if isinstance(frozen, str):
        draft.move(policy, "failed", cause=f"INCONCLUSIVE: {frozen}", verdict="INCONCLUSIVE")
        return
    frozen = budget.begin(draft, policy, frozen)
    draft.trial = blocks.begin(Trial(plan=frozen, began_us=draft.now_us), now_us=draft.now_us)
    draft.note_plan(frozen)
    out = [] if split is None else left_out(split, seen)
    if out:
        draft.note("trial.left_out", frozen.id, replicas=out)
    draft.move(policy, "applying", trial=frozen.id)


def planned(
    draft: Draft,
    policy: Policy,
    seen: Seen,
    plant: PlantInput,
    *,
    trial_id: str,
    seed: int,
    split: Split | None,
) -> TrialPlan | str:
    """A policy's plan as it would be frozen now, or why it can't be tried."""
    spec = _spec(seen, policy.knob)
    if spec is None:
        return f"the engine has no knob {policy.knob}"
    found = plan(
        policy,
        draft.declared,
        spec,
        plant,
        baseline=baseline_below(draft, policy.knob, spec.boot, policy.scope),
        trial_id=trial_id,
        seed=seed,
        split=split,
    )
    if isinstance(found, str):
        return found
    known = known_feedback(draft, seen)
    return with_feedback(found, policy, known, plant, draft.declared.trial)


def _seed(draft: Draft, policy: Policy) -> int:
    """Of the trial's coins: chance, or derived from the declared seed and the change."""
    declared = draft.declared.trial.seed
    if declared is None:
        return draft.rng.getrandbits(32)
    digest = hashlib.sha256(f"{declared}:{policy.words()}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _interrupt(draft: Draft, policy: Policy, seen: Seen) -> None:
    """An emergency cuts the unit that runs; it counts against the arm in force."""
    trial = draft.trial
    block = None if trial is None or trial.state != "running" else blocks.open_block(trial)
    if trial is None or block is None:
        return
    d = None
    blamed = _blamed(trial, block, seen)
    if block.began_us is not None and blamed is not None:
        sign = -1.0 if blamed == "candidate" else 1.0
        d = {trial.plan.primary: sign * trial.plan.scale}
    cut = blocks.cut(trial, now_us=draft.now_us, why=f"emergency {policy.id}", d=d)
    draft.trial = blocks.pause(cut, now_us=draft.now_us, by="emergency")
    on_trial = draft.policies[trial.plan.policy_id]
    if on_trial.state == "on_trial":
        draft.move(on_trial, "paused", cause=f"emergency {policy.id}")


def _blamed(trial: Trial, block: Block, seen: Seen) -> Arm | None:
    """The arm in force; where both are, the one with more misses in the block. None: neither.

    With no effect either half is the candidate's by the coin alone, so that this can't favour one.
    """
    if trial.plan.design == "switchback":
        return block.arm
    baseline, candidate = (
        len(seen.counts(block.index, arm).misses_s) for arm in ("baseline", "candidate")
    )
    if baseline == candidate:
        return None
    return "candidate" if candidate > baseline else "baseline"


def _spec(seen: Seen, knob: str) -> KnobSpec | None:
    if seen.observed is None:
        return None
    return next((spec for spec in seen.observed.knobs if spec.name == knob), None)
