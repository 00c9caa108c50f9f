"""The store follows the latch: what it says of a target, its trials, policies and pins.

Whoever finds that the store has not heard of the latch yet (the loop, after an act past it) makes
it follow, once, under the name of the person who acted.
"""

from __future__ import annotations

from controller.latch import Latched
from controller.store.port import Control, Tx
from controller.trial import blocks
from policies.policy import Policy
from signals.errors import Rejected

MAX_REASON = 2000
MANY = 10_000
"""More layers than a target can have."""


def said(reason: str) -> str:
    """A reason, trimmed. Raises ``Rejected`` when there is none, or too much of it."""
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Rejected(
            "say why", field="reason", value=reason[:50], allowed=f"1 to {MAX_REASON} characters"
        )
    return reason.strip()


def follows(control: Control, latched: Latched | None) -> bool:
    """Whether the store has heard of the latch as it is now."""
    if latched is None:
        return not (control.hold or control.killed or control.detached)
    return control == said_by(latched, control.target)


def said_by(latched: Latched | None, target: str) -> Control:
    """What the store says of a target once it has heard of the latch."""
    if latched is None:
        return Control(target=target)
    return Control(
        target=target,
        hold=latched.state == "held",
        killed=latched.state == "killed",
        detached=latched.state == "detached",
        actor=latched.actor,
        reason=latched.reason,
        since_us=latched.since_us,
    )


def follow_latch(
    tx: Tx, target: str, latched: Latched | None, *, actor: str, now_us: int, reason: str = ""
) -> None:
    """Make the store say what the latch says, unless it does: audit, control row, trials."""
    if follows(tx.control(target), latched):
        return
    tx.append_audit(
        at_us=now_us,
        actor=actor,
        action="control." + ("released" if latched is None else latched.state),
        subject=target,
        target=target,
        details={
            "reason": (reason or "the latch is gone") if latched is None else latched.reason,
            "since_us": None if latched is None else latched.since_us,
        },
    )
    tx.set_control(said_by(latched, target))
    if latched is None:
        _resume(tx, target, actor=actor, now_us=now_us)
    elif latched.state == "killed":
        _undo_all(tx, target, actor=actor, now_us=now_us)
    else:
        _pause_all(tx, target, latched.state, actor=actor, now_us=now_us)


def _undo_all(tx: Tx, target: str, *, actor: str, now_us: int) -> None:
    """After a kill nothing is on trial, in force for a while, about to be, or pinned."""
    for policy in tx.policies(
        target=target, states=("applying", "on_trial", "paused", "in_force"), limit=MANY
    ):
        tx.move(policy, "reverting", actor=actor, at_us=now_us, cause="killed", undo_us=now_us)
        end_trial(tx, policy, now_us)
    for one in tx.overrides(target=target, state="active", limit=MANY):
        if one.kind == "pin":
            tx.end_override(one, cause="killed", actor=actor, at_us=now_us)


def _pause_all(tx: Tx, target: str, why: str, *, actor: str, now_us: int) -> None:
    for trial in tx.trials(target=target, running=True):
        if trial.state != "running":
            continue
        tx.save_trial(blocks.pause(trial, now_us=now_us, by="hold"))
        policy = tx.policy(trial.plan.policy_id)
        if policy.state == "on_trial":
            tx.move(policy, "paused", actor=actor, at_us=now_us, cause=why)


def _resume(tx: Tx, target: str, *, actor: str, now_us: int) -> None:
    for trial in tx.trials(target=target, running=True):
        if trial.paused_by != "hold":
            continue
        policy = tx.policy(trial.plan.policy_id)
        if policy.state == "paused":
            tx.move(policy, "on_trial", actor=actor, at_us=now_us, cause=None)
        tx.save_trial(blocks.resume(trial, now_us=now_us))


def end_trial(tx: Tx, policy: Policy, now_us: int) -> None:
    """End a policy's trial, if one is running."""
    if policy.trial is None:
        return
    trial = tx.trial(policy.trial)
    if trial.state != "done":
        tx.save_trial(blocks.finish(trial, now_us=now_us))


def void_units(tx: Tx, target: str, why: str, *, now_us: int) -> None:
    """What runs is no fair comparison any more: a new unit, with its own coin, follows."""
    for trial in tx.trials(target=target, running=True):
        if trial.state == "running" and blocks.open_block(trial) is not None:
            cut = blocks.cut(trial, now_us=now_us, why=why)
            tx.save_trial(blocks.begin(cut, now_us=now_us))
