"""Taking a policy's layer away by hand, and what lies above it.

A kept policy under a newer kept one, or under a person's override, is not what the engine shows:
taking it away would change nothing now and something later, so it is refused, naming what is above.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.following import MANY, end_trial
from controller.store.port import Tx
from controller.trial import blocks
from policies.policy import Policy
from signals.errors import Conflict


def newer_kept(tx: Tx, policy: Policy) -> list[Policy]:
    """Kept policies above a kept one on the same place, the newest first."""
    if policy.state != "kept":
        return []
    kept = tx.policies(target=policy.target, states=("kept",), limit=MANY)
    return [one for one in kept if one.place == policy.place and one.id > policy.id]


def check_on_top(tx: Tx, policy: Policy, newer: Sequence[Policy], now_us: int) -> None:
    """Raise ``Conflict`` naming the newer layers on a kept policy's place."""
    above = [(one.id, one.words()) for one in newer]
    if policy.state == "kept":
        for override in tx.overrides(target=policy.target, state="active", limit=MANY):
            covers = override.covers(policy.knob, policy.scope, now_us=now_us)
            if covers and override.place is not None:
                above.append((override.id, override.words()))
    if above:
        named = ", ".join(f"{layer} ({words})" for layer, words in above)
        raise Conflict(
            f"{policy.id} lies under newer layers of {policy.place}: {named};"
            " revert or release those first, or say with_newer",
            field="policy_id",
            value=policy.id,
            allowed=[layer for layer, _ in above],
        )


def take_away(tx: Tx, policy: Policy, cause: str, actor: str, now_us: int) -> Policy:
    """Begin the way back; a trial of its own, and what was tried above it, ends."""
    moved = tx.move(policy, "reverting", actor=actor, at_us=now_us, cause=cause, undo_us=now_us)
    end_trial(tx, policy, now_us)
    _disturb(tx, policy, actor=actor, now_us=now_us)
    return moved


def _disturb(tx: Tx, reverted: Policy, *, actor: str, now_us: int) -> None:
    """A layer is gone from under a running trial: its arms are no longer those that were frozen."""
    for trial in tx.trials(target=reverted.target, running=True):
        policy = tx.policy(trial.plan.policy_id)
        if policy.id == reverted.id or trial.state != "running":
            continue
        if policy.place == reverted.place and policy.state in ("applying", "on_trial"):
            cause = f"INCONCLUSIVE: {reverted.id}, below it, was reverted"
            tx.move(
                policy,
                "reverting",
                actor=actor,
                at_us=now_us,
                cause=cause,
                undo_us=now_us,
                verdict="INCONCLUSIVE",
            )
            tx.save_trial(blocks.finish(trial, now_us=now_us))
        else:
            cut = blocks.cut(trial, now_us=now_us, why=f"{reverted.id} was reverted")
            tx.save_trial(blocks.begin(cut, now_us=now_us))
