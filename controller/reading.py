"""What the engine's answer means: restarted, changed by somebody else, applied, taken back."""

from __future__ import annotations

from collections.abc import Sequence

from controller.reconciler import has
from controller.state import BREAK_GLASS, LOOP, Draft, LastRead, Seen
from controller.trial import blocks, parties
from controller.trials import Block, Trial, arm_of
from policies.overrides import Override
from policies.policy import Policy
from policies.runtime_config import Change, ObservedSetting, RuntimeConfig
from policies.settings import Setting, place
from signals.events import MICROS

ENDED_AS_EXPIRED = ("NO_DATA", "expired")
"""Causes after which a policy is ``expired``: it was neither good nor bad."""
RESTARTS_WITHIN_S = 60
"""An engine that died is back within this, or its death is not put down to the block."""


def take_in(draft: Draft, seen: Seen) -> None:
    """Let the draft know what the engines show now; blocks go by those that take part in them."""
    replicas = [one for one in (seen.observed, *seen.others) if one is not None]
    for one in replicas:
        _changes_of(draft, one)
    if draft.trial is not None:
        shown = parties.shown_by(draft.trial.plan, seen)
        draft.trial = blocks.read_back(draft.trial, shown)
    if seen.observed is not None:
        _applied(draft, seen.observed)
    if replicas:
        _taken_back(draft, replicas)


def _changes_of(draft: Draft, seen: RuntimeConfig) -> None:
    """What one replica's change log says since it was last read."""
    last = draft.last_reads.get(seen.replica)
    if last is not None and last.incarnation != seen.incarnation:
        _restarted(draft, seen)
    else:
        _foreign_changes(draft, seen, after=-1 if last is None else last.seq)
    known = last.seq if last is not None and last.incarnation == seen.incarnation else -1
    newest = max((change.seq for change in seen.changes), default=known)
    draft.last_reads[seen.replica] = LastRead(incarnation=seen.incarnation, seq=newest)


def _restarted(draft: Draft, seen: RuntimeConfig) -> None:
    """A new incarnation forgot everything; under the candidate that is the candidate's fault.

    One that is in neither half of a crossover takes nothing from it.
    """
    draft.note("engine.restarted", seen.replica, incarnation=seen.incarnation)
    for one in list(draft.overrides.values()):
        if one.adopted == seen.replica:
            draft.end(one, "engine restarted: what was changed there is forgotten")
    trial = draft.trial
    if trial is None or trial.state != "running":
        return
    block = blocks.open_block(trial)
    arm = None if block is None else arm_of(trial.plan, block, seen.replica)
    if block is None or arm is None:
        return
    policy = draft.policies[trial.plan.policy_id]
    if _died_in(trial, block, seen) and arm == "candidate" and not trial.units[-1].tripped:
        undo(draft, policy, cause="HARMED: engine death", verdict="HARMED")
        return
    trial = blocks.cut(trial, now_us=draft.now_us, why="engine restarted")
    draft.trial = blocks.begin(trial, now_us=draft.now_us)


def _died_in(trial: Trial, block: Block, seen: RuntimeConfig) -> bool:
    """Whether the engine may have died in this block: it was back soon after the block's end.

    Nobody saw it die when the controller was away too; a much later restart is not the block's.
    """
    if block.began_us is None:
        return False
    booted_us = min((c.at for c in seen.changes), default=seen.engine_time) * MICROS
    return booted_us < blocks.ends_us(trial, block) + RESTARTS_WITHIN_S * MICROS


def _foreign_changes(draft: Draft, seen: RuntimeConfig, *, after: int) -> None:
    """What strangers changed. It is kept where it still stands: we may have set the place since."""
    if after < 0:
        return
    patched = [change for change in seen.changes if change.seq > after and change.cause == "patch"]
    last = {(change.knob, change.scope, change.arm): change for change in patched}
    for change in patched:
        if _foreign(draft, change):
            _stranger(
                draft,
                seen,
                change,
                stands=_foreign(draft, last[change.knob, change.scope, change.arm]),
            )


def _foreign(draft: Draft, change: Change) -> bool:
    """Neither the controller's nor of somebody who broke the glass: a stranger's."""
    ours = (draft.state.ours, BREAK_GLASS)
    return change.knob is not None and not (change.change_id or "").startswith(ours)


def _stranger(draft: Draft, seen: RuntimeConfig, change: Change, *, stands: bool) -> None:
    """Tell of a change that is not ours, end the trial that it spoilt, and let it be if it may.

    A person's own pin or force stands: it is sent again, and the stranger's change is only told. So
    it is where we have set the place since (not ``stands``), and under a kill that goes somewhere;
    and where nothing is left to let be: what a split had, or an intent's setting that is gone.
    """
    if change.knob is None:
        return
    now = seen.setting(change.knob, change.scope) if change.arm is None else None
    told = Setting(value=None if change.law else change.after, law=change.law)
    draft.note(
        "engine.foreign_change",
        change.knob,
        setting=told.words(),
        change_id=change.change_id,
        replica=seen.replica,
    )
    kept = _kept_by_person(draft, place(change.knob, change.scope))
    taken = draft.state.control.killed and draft.declared.target.on_kill != "hold"
    if now is not None and stands and not kept and not taken:
        _adopt(draft, seen, change, now)
    trial = draft.trial
    if trial is not None and trial.state != "done":
        undo(
            draft,
            draft.policies[trial.plan.policy_id],
            cause="foreign change",
            verdict="INCONCLUSIVE",
        )


def _adopt(draft: Draft, seen: RuntimeConfig, change: Change, now: ObservedSetting) -> None:
    """Keep a stranger's change as a pin; until it ends nobody writes over it."""
    setting = Setting(value=None if now.law else now.value, law=now.law, shrink=now.shrink)
    at = place(now.knob, now.scope)
    for one in list(draft.overrides.values()):
        if one.adopted == seen.replica and one.place == at:
            draft.end(one, "changed again")
    draft.adopt(
        Override(
            id=draft.new_id("pin"),
            target=draft.declared.name,
            kind="pin",
            knob=now.knob,
            scope=now.scope,
            setting=setting,
            reason=f"{seen.replica} was changed by somebody else: {at} = {setting.words()}"
            f" (change {change.change_id or 'without an id'})",
            by=LOOP,
            created_us=draft.now_us,
            expires_us=draft.now_us + draft.declared.serve.foreign_s * MICROS,
            adopted=seen.replica,
        )
    )


def _kept_by_person(draft: Draft, at: str) -> bool:
    return any(
        one.adopted is None and one.place == at and one.in_force(draft.now_us)
        for one in draft.overrides.values()
    )


def _applied(draft: Draft, seen: RuntimeConfig) -> None:
    for policy in draft.in_state("applying"):
        if policy.emergency:
            if has(seen, policy.knob, policy.setting, policy.id, policy.scope):
                draft.move(policy, "in_force", applied_us=draft.now_us)
        elif draft.trial is not None and _began(draft, policy):
            draft.move(policy, "on_trial", applied_us=draft.now_us)


def _began(draft: Draft, policy: Policy) -> bool:
    trial = draft.trial
    if trial is None or trial.plan.policy_id != policy.id:
        return False
    return any(block.began_us is not None for unit in trial.units for block in unit.blocks)


def _taken_back(draft: Draft, replicas: Sequence[RuntimeConfig]) -> None:
    """Reverting ends when every engine that answers is seen without the policy."""
    for policy in draft.in_state("reverting"):
        if any(_has_hand_in(policy, seen) for seen in replicas):
            continue
        expired = (policy.cause or "").startswith(ENDED_AS_EXPIRED)
        draft.move(policy, "expired" if expired else "reverted")


def _has_hand_in(policy: Policy, seen: RuntimeConfig) -> bool:
    if seen.trial is not None and seen.trial.id == policy.trial:
        return True
    now = seen.setting(policy.knob, policy.scope)
    return now is not None and policy.id in _named(now)


def _named(now: ObservedSetting) -> tuple[str | None, ...]:
    """The policies that have a hand in a setting: its own, and what it would fall back to."""
    return (now.policy_id, None if now.fallback is None else now.fallback.policy_id)


def undo(
    draft: Draft, policy: Policy, *, cause: str, actor: str = "loop", **changes: object
) -> None:
    """Begin the way back: from here the wish no longer contains the policy's layer."""
    draft.move(policy, "reverting", actor=actor, cause=cause, undo_us=draft.now_us, **changes)
    trial = draft.trial
    if trial is not None and trial.plan.policy_id == policy.id and trial.state != "done":
        draft.trial = blocks.finish(trial, now_us=draft.now_us)
