"""What the engine's answer means: restarted, changed by somebody else, applied, taken back."""

from __future__ import annotations

from controller.reconciler import has
from controller.state import Draft, LastRead
from controller.store.port import Foreign
from controller.trial import blocks
from controller.trials import Block, Trial
from policies.policy import Policy
from policies.runtime_config import Change, ObservedSetting, RuntimeConfig
from policies.settings import Setting
from signals.events import MICROS

ENDED_AS_EXPIRED = ("NO_DATA", "expired")
"""Causes after which a policy is ``expired``: it was neither good nor bad."""
RESTARTS_WITHIN_S = 60
"""An engine that died is back within this, or its death is not put down to the block."""


def take_in(draft: Draft, seen: RuntimeConfig) -> None:
    """Let the draft know what the engine shows now."""
    last = draft.last_read
    if last is not None and last.incarnation != seen.incarnation:
        _restarted(draft, seen)
    else:
        _foreign_changes(draft, seen, after=-1 if last is None else last.seq)
    known = last.seq if last is not None and last.incarnation == seen.incarnation else -1
    newest = max((change.seq for change in seen.changes), default=known)
    draft.last_read = LastRead(incarnation=seen.incarnation, seq=newest)
    if draft.trial is not None:
        draft.trial = blocks.read_back(draft.trial, seen)
    _applied(draft, seen)
    _taken_back(draft, seen)


def _restarted(draft: Draft, seen: RuntimeConfig) -> None:
    """A new incarnation forgot everything; in a candidate's block that is the candidate's fault."""
    draft.note("engine.restarted", seen.replica, incarnation=seen.incarnation)
    for knob in draft.foreign:
        draft.cleared.append(knob)
        draft.note("engine.foreign_forgotten", knob, incarnation=seen.incarnation)
    draft.foreign.clear()
    trial = draft.trial
    if trial is None or trial.state != "running":
        return
    block = blocks.open_block(trial)
    if block is None:
        return
    policy = draft.policies[trial.plan.policy_id]
    if _died_in(trial, block, seen) and block.arm == "candidate" and not trial.units[-1].tripped:
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
    for change in seen.changes:
        if (
            change.seq > after
            and change.cause == "patch"
            and after >= 0
            and _foreign(draft, change)
        ):
            _adopt(draft, seen, change)


def _foreign(draft: Draft, change: Change) -> bool:
    ours = change.change_id is not None and change.change_id.startswith(draft.state.ours)
    return not ours and change.knob is not None


def _adopt(draft: Draft, seen: RuntimeConfig, change: Change) -> None:
    """Keep a change that is not ours; that knob only observes for a while."""
    now = seen.setting(change.knob or "")
    if now is None:
        return
    found = Foreign(
        target=draft.declared.name,
        knob=now.knob,
        setting=Setting(value=None if now.law else now.value, law=now.law, shrink=now.shrink),
        seen_us=draft.now_us,
        until_us=draft.now_us + draft.declared.serve.foreign_s * 1_000_000,
        change_id=change.change_id,
    )
    draft.foreign[now.knob] = found
    draft.new_foreign.append(found)
    draft.note(
        "engine.foreign_change", now.knob, setting=found.setting.words(), change_id=change.change_id
    )
    trial = draft.trial
    if trial is not None and trial.state != "done":
        undo(
            draft,
            draft.policies[trial.plan.policy_id],
            cause="foreign change",
            verdict="INCONCLUSIVE",
        )


def _applied(draft: Draft, seen: RuntimeConfig) -> None:
    for policy in draft.in_state("applying"):
        if policy.emergency:
            if has(seen, policy.knob, policy.setting, policy.id):
                draft.move(policy, "in_force", applied_us=draft.now_us)
        elif draft.trial is not None and _began(draft, policy):
            draft.move(policy, "on_trial", applied_us=draft.now_us)


def _began(draft: Draft, policy: Policy) -> bool:
    trial = draft.trial
    if trial is None or trial.plan.policy_id != policy.id:
        return False
    return any(block.began_us is not None for unit in trial.units for block in unit.blocks)


def _taken_back(draft: Draft, seen: RuntimeConfig) -> None:
    """Reverting ends when the engine is seen without the policy."""
    for policy in draft.in_state("reverting"):
        now = seen.setting(policy.knob)
        on_trial = seen.trial is not None and seen.trial.id == policy.trial
        if on_trial or (now is not None and policy.id in _named(now)):
            continue
        expired = (policy.cause or "").startswith(ENDED_AS_EXPIRED)
        draft.move(policy, "expired" if expired else "reverted")


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
