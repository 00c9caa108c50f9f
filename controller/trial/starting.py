"""Approved policies begin: emergencies at once, everything else as a trial, one per target."""

from __future__ import annotations

import hashlib
from typing import Final

from controller.state import Draft, Seen
from controller.trial import blocks
from controller.trial.planning import plan
from controller.trials import Trial
from policies.knobs import KnobSpec
from policies.lifecycle import State
from policies.policy import Policy
from policies.settings import Layer, Setting, effective

BUSY: Final[tuple[State, ...]] = ("applying", "in_force", "on_trial", "paused", "reverting")


def start(draft: Draft, seen: Seen) -> None:
    """Begin what is approved, oldest first, where nothing stands in the way; emergencies first."""
    able = [p for p in draft.in_state("approved") if p.knob not in draft.foreign_now()]
    for policy in able:
        if policy.emergency:
            draft.move(policy, "applying")
            _interrupt(draft, policy)
    for policy in able:
        if not policy.emergency and not _busy(draft):
            _start_trial(draft, policy, seen)


def baseline_below(draft: Draft, knob: str, boot: int) -> Setting:
    """What the knob has without any trial: baseline and kept policies."""
    kept = [Layer(knob=p.knob, setting=p.setting, policy_id=p.id) for p in draft.in_state("kept")]
    folded = effective(draft.declared.target.baseline_settings(), kept)
    return folded[knob].setting if knob in folded else Setting(value=boot)


def _busy(draft: Draft) -> bool:
    running = draft.trial is not None and draft.trial.state != "done"
    return running or bool(draft.in_state(*BUSY))


def _start_trial(draft: Draft, policy: Policy, seen: Seen) -> None:
    """Freeze the plan and open the first block; or fail with the reason it can't be planned."""
    spec = _spec(seen, policy.knob)
    if spec is None or seen.plant is None:
        return
    frozen = plan(
        policy,
        draft.declared,
        spec,
        seen.plant,
        baseline=baseline_below(draft, policy.knob, spec.boot),
        trial_id=draft.new_id("tri"),
        seed=_seed(draft, policy),
    )
    if isinstance(frozen, str):
        draft.move(policy, "failed", cause=f"INCONCLUSIVE: {frozen}", verdict="INCONCLUSIVE")
        return
    draft.trial = blocks.begin(Trial(plan=frozen, began_us=draft.now_us), now_us=draft.now_us)
    draft.note_plan(frozen)
    draft.move(policy, "applying", trial=frozen.id)


def _seed(draft: Draft, policy: Policy) -> int:
    """Of the trial's coins: chance, or derived from the declared seed and the change."""
    declared = draft.declared.trial.seed
    if declared is None:
        return draft.rng.getrandbits(32)
    digest = hashlib.sha256(f"{declared}:{policy.words()}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _interrupt(draft: Draft, policy: Policy) -> None:
    """An emergency cuts the unit that runs; it counts against the arm in force."""
    trial = draft.trial
    block = None if trial is None or trial.state != "running" else blocks.open_block(trial)
    if trial is None or block is None:
        return
    d = None
    if block.began_us is not None:
        sign = -1.0 if block.arm == "candidate" else 1.0
        d = {trial.plan.primary: sign * trial.plan.scale}
    cut = blocks.cut(trial, now_us=draft.now_us, why=f"emergency {policy.id}", d=d)
    draft.trial = blocks.pause(cut, now_us=draft.now_us, by="emergency")
    on_trial = draft.policies[trial.plan.policy_id]
    if on_trial.state == "on_trial":
        draft.move(on_trial, "paused", cause=f"emergency {policy.id}")


def _spec(seen: Seen, knob: str) -> KnobSpec | None:
    if seen.observed is None:
        return None
    return next((spec for spec in seen.observed.knobs if spec.name == knob), None)
