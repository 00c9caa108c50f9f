"""What a person may do, as use cases: propose, approve, reject, revert, pause, hold, kill.

Each is one transaction with its audit entry; a lost race raises ``Conflict`` and changes nothing.
The loop then brings the engine after it. Only hold, release and kill touch engines directly,
because they must work when the loop does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from msgspec import Struct

from controller.desired import Desired, desired
from controller.fleet import Fleet, Reached
from controller.latch import Latched, LatchState
from controller.state import Declared
from controller.store.port import Control, Principal, Store, Tx
from controller.trial import blocks
from policies import laws
from policies.ids import new_id
from policies.knobs import KnobSpec
from policies.policy import Mode, Origin, Policy
from policies.settings import Setting
from signals.errors import Conflict, NotFound, Rejected, TrimtabError, Unavailable

MAX_REASON = 2000


class ControlReport(Struct, frozen=True, kw_only=True):
    """What became of a hold, release or kill at each replica. Unreachable ones are listed."""

    target: str
    replicas: tuple[Reached, ...]
    took_ms: float
    recorded: bool = True


class Operations:
    """The use cases. ``wake`` makes the loop look at once; ``clock`` answers Unix µs."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        declared: Mapping[str, Declared],
        *,
        clock: Callable[[], int],
        mono: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._declared = declared
        self._clock = clock
        self._mono = mono
        self._wake = wake

    def propose(
        self, target: str, knob: str, setting: Setting, reason: str, *, by: Principal
    ) -> Policy:
        """A change proposed by hand; it waits for another person's approval whatever the mode."""
        declared = self._target(target)
        spec = self._spec(target, knob)
        _check(spec, setting)
        now_us = self._clock()
        seen = self._fleet.first(target).read(max_age_s=5.0)
        current = None if seen is None else seen.setting(knob)
        if current is None:
            raise Conflict(
                f"the engine of {target} can't be read now", field="target", value=target
            )
        policy = Policy(
            id=new_id("pol", now_us, os.urandom(8)),
            target=target,
            knob=knob,
            before=Setting(
                value=None if current.law else current.value, law=current.law, shrink=current.shrink
            ),
            setting=setting,
            origin=Origin(kind="person", name=by.name),
            reason=_reason(reason),
            risk=spec.risk,
            mode=declared.target.knobs.mode(knob),
            proposed_by=by.id,
            created_us=now_us,
            updated_us=now_us,
            expires_us=now_us + declared.trial.proposal_ttl_s * 1_000_000,
        )
        with self._store.write() as tx:
            tx.add_policy(policy)
            policy = tx.move(policy, "pending", actor=by.id, at_us=now_us)
        self._wake()
        return policy

    def approve(self, policy_id: str, shown_digest: str, *, by: Principal) -> Policy:
        """Approve exactly what was shown. The proposer may not approve his own."""
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            if policy.shown_digest != shown_digest:
                raise Conflict(
                    "the approval names another digest than the policy has; look again",
                    field="shown_digest",
                    value=shown_digest,
                    allowed=policy.shown_digest,
                )
            if policy.proposed_by == by.id:
                raise Conflict("the proposer can't approve his own policy", field="by", value=by.id)
            moved = tx.move(policy, "approved", actor=by.id, at_us=self._clock(), decided_by=by.id)
        self._wake()
        return moved

    def reject(self, policy_id: str, reason: str, *, by: Principal) -> Policy:
        """Say no to a proposal."""
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            return tx.move(
                policy,
                "rejected",
                actor=by.id,
                at_us=self._clock(),
                decided_by=by.id,
                cause=_reason(reason),
            )

    def revert(self, policy_id: str, reason: str, *, by: Principal) -> Policy:
        """Take a policy's layer away, whatever the judge thinks of it."""
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(
                policy,
                "reverting",
                actor=by.id,
                at_us=now_us,
                cause=f"reverted by {by.name}: {_reason(reason)}",
                undo_us=now_us,
            )
            _end_trial(tx, policy, now_us)
        self._wake()
        return moved

    def pause(self, policy_id: str, reason: str, *, by: Principal) -> Policy:
        """Stop a trial's clock; its engine goes back to the baseline until ``resume``."""
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(policy, "paused", actor=by.id, at_us=now_us, cause=_reason(reason))
            if policy.trial is not None:
                trial = tx.trial(policy.trial)
                tx.save_trial(blocks.pause(trial, now_us=now_us, why="paused by a person"))
        self._wake()
        return moved

    def resume(self, policy_id: str, *, by: Principal) -> Policy:
        """Go on with a paused trial, in a fresh unit."""
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(policy, "on_trial", actor=by.id, at_us=self._clock(), cause=None)
            if policy.trial is not None:
                tx.save_trial(blocks.resume(tx.trial(policy.trial)))
        self._wake()
        return moved

    def set_mode(self, target: str, knob: str, mode: Mode, *, by: Principal) -> None:
        """Raise or lower what the loop may do with a knob. 409 when a file declares it."""
        declared = self._target(target)
        self._spec(target, knob)
        if declared.target.knobs.managed(knob):
            raise Conflict(
                f"the mode of {knob} is declared by the configuration file; change it there",
                field="managed_by",
                value="file",
            )
        with self._store.write() as tx:
            before = tx.modes(target).get(knob, declared.target.knobs.default)
            tx.set_mode(target, knob, mode)
            tx.append_audit(
                at_us=self._clock(),
                actor=by.id,
                action="mode.set",
                subject=knob,
                target=target,
                details={"before": before, "after": mode},
            )
        self._wake()

    def hold(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Nothing changes any more: laws freeze, the trial pauses, expiries are suspended."""
        latched = self._latched("held", reason, by)
        return self._control(target, latched, by)

    def kill(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Stop the loop, then go to what ``on_kill`` declares; read back, unreachable listed."""
        latched = self._latched("killed", reason, by)
        return self._control(target, latched, by)

    def release(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """End a hold or a kill; the loop goes on from what was kept."""
        if self._fleet.latch.read().get(target) is None:
            raise Conflict(f"{target} is neither held nor killed", field="target", value=target)
        _reason(reason)
        return self._control(target, None, by, reason=reason)

    def _control(
        self, target: str, latched: Latched | None, by: Principal, *, reason: str = ""
    ) -> ControlReport:
        """Latch first, engines next, the store last: the store may be the broken part."""
        declared, began_s, now_us = self._target(target), self._mono(), self._clock()
        self._fleet.latch.set(target, latched)
        wish = self._wish(declared, latched, now_us)
        reached = self._fleet.bring(target, wish, now_us=now_us, latched=True)
        took_ms = round((self._mono() - began_s) * 1000, 1)
        recorded = self._record(target, latched, by, reason, reached, now_us)
        self._wake()
        return ControlReport(
            target=target, replicas=tuple(reached), took_ms=took_ms, recorded=recorded
        )

    def _wish(self, declared: Declared, latched: Latched | None, now_us: int) -> Desired:
        policies: list[Policy] = []
        try:
            with self._store.read() as tx:
                policies = tx.policies(target=declared.name, states=("kept", "in_force"))
        except TrimtabError:
            if latched is None or (
                latched.state == "killed" and declared.target.on_kill == "last_stable"
            ):
                raise
        state = None if latched is None else latched.state
        control = Control(target=declared.name, hold=state == "held", killed=state == "killed")
        return desired(
            declared.target.baseline_settings(),
            policies,
            None,
            control,
            (),
            on_kill=declared.target.on_kill,
            now_us=now_us,
        )

    def _record(
        self,
        target: str,
        latched: Latched | None,
        by: Principal,
        reason: str,
        reached: list[Reached],
        now_us: int,
    ) -> bool:
        """Bring the store after the latch; False when the store can't be written now."""
        try:
            with self._store.write() as tx:
                tx.append_audit(
                    at_us=now_us,
                    actor=by.id,
                    action="control." + ("released" if latched is None else latched.state),
                    subject=target,
                    target=target,
                    details={
                        "reason": reason if latched is None else latched.reason,
                        "replicas": {r.replica: r.detail for r in reached},
                    },
                )
                follow_latch(tx, target, latched, actor=by.id, now_us=now_us)
        except TrimtabError:
            return False
        return True

    def _latched(self, state: LatchState, reason: str, by: Principal) -> Latched:
        return Latched(state=state, actor=by.id, reason=_reason(reason), since_us=self._clock())

    def _target(self, target: str) -> Declared:
        found = self._declared.get(target)
        if found is None:
            raise NotFound(
                f"no target {target!r}",
                field="target",
                value=target,
                allowed=sorted(self._declared),
            )
        return found

    def _spec(self, target: str, knob: str) -> KnobSpec:
        self._target(target)
        seen = self._fleet.first(target).read(max_age_s=60.0)
        if seen is None:
            raise Unavailable(f"the engine of {target} does not answer, so its knobs are unknown")
        specs = {spec.name: spec for spec in seen.knobs}
        if knob not in specs:
            raise Rejected(
                f"the engine of {target} has no knob {knob!r}",
                field="knob",
                value=knob,
                allowed=sorted(specs),
            )
        return specs[knob]


def follow_latch(tx: Tx, target: str, latched: Latched | None, *, actor: str, now_us: int) -> None:
    """Make the store say what the latch says: control row, and what happens to running trials."""
    tx.set_control(
        Control(
            target=target,
            hold=latched is not None and latched.state == "held",
            killed=latched is not None and latched.state == "killed",
            actor=None if latched is None else latched.actor,
            reason=None if latched is None else latched.reason,
            since_us=None if latched is None else latched.since_us,
        )
    )
    if latched is None:
        _resume_held(tx, target, actor=actor, now_us=now_us)
        return
    for policy in tx.policies(target=target, states=("applying", "on_trial", "paused", "in_force")):
        if latched.state == "killed":
            tx.move(policy, "reverting", actor=actor, at_us=now_us, cause="killed", undo_us=now_us)
            _end_trial(tx, policy, now_us)
        elif policy.state == "on_trial" and policy.trial is not None:
            tx.move(policy, "paused", actor=actor, at_us=now_us, cause=HELD)
            tx.save_trial(blocks.pause(tx.trial(policy.trial), now_us=now_us, why=HELD))


HELD = "held"


def _resume_held(tx: Tx, target: str, *, actor: str, now_us: int) -> None:
    for policy in tx.policies(target=target, states=("paused",)):
        if policy.cause == HELD and policy.trial is not None:
            tx.move(policy, "on_trial", actor=actor, at_us=now_us, cause=None)
            tx.save_trial(blocks.resume(tx.trial(policy.trial)))


def _end_trial(tx: Tx, policy: Policy, now_us: int) -> None:
    if policy.trial is None:
        return
    trial = tx.trial(policy.trial)
    if trial.state != "done":
        tx.save_trial(blocks.finish(trial, now_us=now_us))


def _check(spec: KnobSpec, setting: Setting) -> None:
    if (setting.value is None) == (setting.law is None):
        raise Rejected("give a value or a law, not both", field="setting")
    if setting.law is not None:
        laws.check(setting.law, lambda value, field: spec.check(value, field=field), field="law")
    elif setting.value is not None:
        spec.check(setting.value, field="value")


def _reason(reason: str) -> str:
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Rejected(
            "say why", field="reason", value=reason[:50], allowed=f"1 to {MAX_REASON} characters"
        )
    return reason.strip()
