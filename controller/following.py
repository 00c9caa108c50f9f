"""The store follows the latch: what it says of a target, its trials, policies and pins.

The latch's file keeps the changes that were made to it. Whoever writes the store next (the person
who acted, another one, or the loop after a crash or after an act past it) records all of them that
the store has not heard of, in their order, each under the name of the person who made it: so each
is recorded once, and the store never says what the latch no longer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.latch import Latched, standing
from controller.state import LOOP
from controller.store.port import Control, Tx
from controller.trial import blocks
from policies.policy import Policy
from signals.errors import Rejected

MAX_REASON = 2000
MANY = 10_000
"""More layers than a target can have."""
GONE: Final = "the latch is gone"


def said(reason: str) -> str:
    """A reason, trimmed. Raises ``Rejected`` when there is none, or too much of it."""
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Rejected(
            "say why", field="reason", value=reason[:50], allowed=f"1 to {MAX_REASON} characters"
        )
    return reason.strip()


def follows(tx: Tx, target: str, changes: Sequence[Latched]) -> bool:
    """Whether the store has heard of all that the latch went through."""
    return not _unheard(tx, target, changes) and not _gone(tx, target, changes)


def said_by(latched: Latched | None, target: str) -> Control:
    """What the store says of a target once it has heard of the latch."""
    if latched is None or latched.state == "released":
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


def follow_latch(tx: Tx, target: str, changes: Sequence[Latched], *, now_us: int) -> None:
    """Make the store say what the latch says, unless it does: audit, control row, trials."""
    news = _unheard(tx, target, changes)
    if not news and _gone(tx, target, changes):
        news = [Latched(state="released", actor=LOOP, reason=GONE, since_us=now_us)]
    for change in news:
        tx.append_audit(
            at_us=now_us,
            actor=change.actor,
            action=f"control.{change.state}",
            subject=target,
            target=target,
            details={"reason": change.reason, "since_us": change.since_us},
        )
        _carry_out(tx, target, change, now_us=now_us)
    if news:
        tx.set_control(said_by(news[-1], target))
        tx.set_note(_heard_of(target), _named(news[-1]))


def _unheard(tx: Tx, target: str, changes: Sequence[Latched]) -> list[Latched]:
    """The changes after the last one that the store heard of.

    Where the file has not got that one (it was lost, or put back), those that are younger; and the
    newest in any case, unless the store says what it says.
    """
    control, heard = tx.control(target), tx.note(_heard_of(target))
    names = [_named(change) for change in changes]
    if heard is None:
        # A store of before this was noted; or nothing was ever latched.
        heard = next((_named(one) for one in changes if _stands(one, control)), "")
        return list(changes[names.index(heard) + 1 if heard else 0 :])
    if heard in names:
        return list(changes[names.index(heard) + 1 :])
    since_us = int(heard.split()[1])
    younger = [change for change in changes if change.since_us > since_us]
    return younger or [one for one in changes[-1:] if said_by(one, target) != control]


def _stands(change: Latched, control: Control) -> bool:
    return change.state != "released" and said_by(change, control.target) == control


def _gone(tx: Tx, target: str, changes: Sequence[Latched]) -> bool:
    """Whether the store says that something stands, and there is no such latch: its file went."""
    return standing(changes) is None and tx.control(target) != Control(target=target)


def _heard_of(target: str) -> str:
    return f"latch:{target}"


def _named(change: Latched) -> str:
    return f"{change.state} {change.since_us} {change.actor}"


def _carry_out(tx: Tx, target: str, change: Latched, *, now_us: int) -> None:
    if change.state == "released":
        _resume(tx, target, actor=change.actor, now_us=now_us)
    elif change.state == "killed":
        _undo_all(tx, target, actor=change.actor, now_us=now_us)
    else:
        _pause_all(tx, target, change.state, actor=change.actor, now_us=now_us)


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
