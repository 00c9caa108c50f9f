"""Rollback: whole settings of a target, to last stable or to a time, planned, shown, read back.

What is decided is in ``controller.rollback_plan``; here it is looked up, carried out in one
transaction, and brought to every replica at once. A hold does not stop it: hold, roll back, look,
release is how an incident goes.
"""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct

from controller.baselines import baseline_in_force
from controller.desired import Desired
from controller.fleet import Reached
from controller.following import MANY, end_trial, said
from controller.history.times import rfc3339
from controller.override_acts import OverrideOperations
from controller.rollback_plan import RollbackPlan, booted, plan_rollback
from controller.state import Declared
from controller.store.port import Principal, Tx
from controller.wishes import Lower
from policies.ids import new_id
from policies.in_force import Segment
from policies.lifecycle import LAYERED
from policies.overrides import PREFIX, Override
from policies.runtime_config import RuntimeConfig
from policies.settings import place, split
from signals.errors import Conflict, Rejected
from signals.events import MICROS

LAST_STABLE: Literal["last_stable"] = "last_stable"


class RollbackReport(Struct, frozen=True, kw_only=True):
    """What a rollback did, or (``dry_run``) would do.

    ``to``: ``last_stable``, or the time in µs. ``before``: what the first replica that answers
    had; ``after``: what is wished of all, in words, by place. ``reverted``: policy -> its change;
    ``ended``, ``standing``: override -> what it says; ``pinned`` until ``pinned_until_us``.
    ``replicas``: what was read back; empty in a dry run.
    """

    target: str
    to: Literal["last_stable"] | int
    dry_run: bool
    before: dict[str, str]
    after: dict[str, str]
    reverted: dict[str, str]
    ended: dict[str, str]
    standing: dict[str, str]
    pinned: dict[str, str]
    pinned_until_us: int | None
    replicas: tuple[Reached, ...]
    took_ms: float


class RollbackOperations(OverrideOperations):
    """Rollback, beside overrides."""

    def rollback(
        self,
        target: str,
        reason: str,
        *,
        by: Principal,
        at_us: int | None = None,
        dry_run: bool = False,
    ) -> RollbackReport:
        """To last stable (baseline and kept policies), or to what was in force at ``at_us``.

        Raises ``Conflict`` where that is unknown, or the target is killed or detached; ``Rejected``
        for a time to come.
        """
        declared, began_s, now_us = self.target(target), self._mono(), self._clock()
        if at_us is not None and at_us > now_us:
            raise Rejected("that time is to come", field="at", value=at_us, allowed="a time past")
        seen = self._fleet.glimpse(target, max_age_s=1.0)
        latched = self._fleet.latch.read().get(target)
        _check_state(target, None if latched is None else latched.state)
        if dry_run:
            with self._store.read() as tx:
                plan = _plan(tx, declared, seen, at_us, now_us)
        else:
            with self._store.write() as tx:
                plan = _plan(tx, declared, seen, at_us, now_us)
                _carry_out(tx, declared, plan, said(reason), by=by, at_us=at_us, now_us=now_us)
        wish = plan.wish if dry_run else self._wish_now(declared, plan, now_us)
        reached: list[Reached] = []
        if not dry_run:
            reached = self._fleet.bring(target, wish, now_us=now_us, under=latched)
            self._wake()
        until_us = now_us + declared.control.rollback_pin_s * MICROS
        return RollbackReport(
            target=target,
            to=LAST_STABLE if at_us is None else at_us,
            dry_run=dry_run,
            before=_shown(seen),
            after={at: one.setting.words() for at, one in wish.settings.items()}
            | {at: setting.words() for at, setting in plan.pinned.items()},
            reverted={one.id: one.words() for one in plan.reverted},
            ended={one.id: one.words() for one in plan.ended},
            standing={one.id: one.words() for one in plan.standing},
            pinned={at: setting.words() for at, setting in plan.pinned.items()},
            pinned_until_us=until_us if plan.pinned else None,
            replicas=tuple(reached),
            took_ms=round((self._mono() - began_s) * 1000, 1),
        )

    def _wish_now(self, declared: Declared, plan: RollbackPlan, now_us: int) -> Desired:
        """The wish with the pins that were set, under their ids."""
        if not plan.pinned:
            return plan.wish
        with self._store.read() as tx:
            again = _fold(tx, declared, None, None, now_us, keep_pins=True)
        return again.wish


def _check_state(target: str, state: str | None) -> None:
    """Asked of the latch and then of the store, which may not have heard of it yet."""
    if state in ("killed", "detached"):
        instead = "release" if state == "killed" else "attach"
        raise Conflict(f"{target} is {state}; {instead} it first", field="target")


def _plan(
    tx: Tx, declared: Declared, seen: RuntimeConfig | None, at_us: int | None, now_us: int
) -> RollbackPlan:
    control = tx.control(declared.name)
    stands = "killed" if control.killed else "detached" if control.detached else None
    _check_state(declared.name, stands)
    then = None if at_us is None else known_segment(tx, declared.name, at_us)
    plan = _fold(tx, declared, then, at_us, now_us)
    boots = {} if seen is None else {spec.name: spec.boot for spec in seen.knobs}
    return booted(plan, boots)


def _fold(
    tx: Tx,
    declared: Declared,
    then: Segment | None,
    at_us: int | None,
    now_us: int,
    *,
    keep_pins: bool = False,
) -> RollbackPlan:
    name = declared.name
    lower = Lower(
        baseline=baseline_in_force(tx.baseline(name), declared.target),
        policies=tx.policies(target=name, states=sorted(LAYERED), limit=MANY),
        overrides=tx.overrides(target=name, state="active", limit=MANY),
    )
    return plan_rollback(
        lower,
        tx.control(name),
        then=then,
        at_us=at_us,
        on_kill=declared.target.on_kill,
        now_us=now_us,
        pins_stand=keep_pins,
    )


def known_segment(tx: Tx, target: str, at_us: int) -> Segment:
    """What was in force then, of the first replica that is known. Raises ``Conflict``."""
    unknown: Segment | None = None
    for replica in tx.segment_replicas(target):
        found = tx.segment_at(target, replica, at_us)
        if found is not None and found.known:
            return found
        unknown = unknown or found
    if unknown is not None:
        since = rfc3339(unknown.from_us)
        until = "now" if unknown.until_us is None else rfc3339(unknown.until_us)
        raise Conflict(
            f"what {target} had then is unknown from {since} until {until}",
            field="at",
            value=at_us,
            allowed=f"a time outside {since}–{until}",
        )
    oldest = min((one.from_us for one in tx.segments(target, limit=1)), default=None)
    since = "nothing is recorded" if oldest is None else f"the record begins at {rfc3339(oldest)}"
    raise Conflict(
        f"what {target} had then is unknown: {since}",
        field="at",
        value=at_us,
        allowed=None if oldest is None else f"at or after {rfc3339(oldest)}",
    )


def _carry_out(
    tx: Tx,
    declared: Declared,
    plan: RollbackPlan,
    reason: str,
    *,
    by: Principal,
    at_us: int | None,
    now_us: int,
) -> None:
    to = "last stable" if at_us is None else f"{at_us}"
    cause = f"rollback to {to} by {by.name}: {reason}"
    tx.append_audit(
        at_us=now_us,
        actor=by.id,
        action="control.rollback",
        subject=declared.name,
        target=declared.name,
        details={
            "to": to,
            "reason": reason,
            "reverted": [one.id for one in plan.reverted],
            "ended": [one.id for one in plan.ended],
            "pinned": {at: setting.words() for at, setting in plan.pinned.items()},
        },
    )
    for policy in plan.reverted:
        tx.move(policy, "reverting", actor=by.id, at_us=now_us, cause=cause, undo_us=now_us)
        end_trial(tx, policy, now_us)
    for override in plan.ended:
        tx.end_override(override, cause=cause, actor=by.id, at_us=now_us)
    for at, setting in plan.pinned.items():
        knob, scope = split(at)
        tx.add_override(
            Override(
                id=new_id(PREFIX["pin"], now_us, os.urandom(8)),
                target=declared.name,
                kind="pin",
                knob=knob,
                scope=scope,
                setting=setting,
                reason=cause,
                by=by.id,
                created_us=now_us,
                expires_us=now_us + declared.control.rollback_pin_s * MICROS,
            )
        )


def _shown(seen: RuntimeConfig | None) -> dict[str, str]:
    if seen is None:
        return {}
    return {
        place(one.knob, one.scope): str(one.value) + (" by law" if one.law is not None else "")
        for one in seen.settings
    }
