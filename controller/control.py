"""Hold, kill and release: the acts that must work when the loop, the store or both do not.

Latch first, engines next, the store last. Whoever finds that the store has not heard of the latch
yet (the loop, after an act past it) makes it follow, once, under the name of the person who acted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from controller.desired import Desired, desired
from controller.fleet import Fleet, Reached
from controller.latch import Latched, LatchState
from controller.state import Declared
from controller.store.port import Control, Foreign, Principal, Store, Tx
from controller.trial import blocks
from policies.policy import Policy
from policies.runtime_config import ObservedSetting, RuntimeConfig
from policies.settings import Effective, Setting
from signals.errors import Conflict, NotFound, Rejected, TrimtabError

MAX_REASON = 2000


class ControlReport(Struct, frozen=True, kw_only=True):
    """What became of a hold, release or kill at each replica. Unreachable ones are listed.

    ``recorded`` False: the store could not be written; the latch stands, the record follows it.
    """

    target: str
    replicas: tuple[Reached, ...]
    took_ms: float
    recorded: bool = True


class ControlOperations:
    """The three acts. ``wake`` makes the loop look at once; ``clock`` answers Unix µs."""

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

    def hold(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Nothing changes any more: laws freeze, the trial pauses, expiries are suspended."""
        latched = self._latched("held", reason, by)
        return self.carry_out(target, latched, by)

    def kill(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Stop the loop, then go to what ``on_kill`` declares; read back, unreachable listed."""
        latched = self._latched("killed", reason, by)
        return self.carry_out(target, latched, by)

    def kill_all(
        self, targets: Sequence[str], reason: str, *, by: Principal
    ) -> list[ControlReport]:
        """Kill several: every latch is set before the first engine is spoken to."""
        latched = self._latched("killed", reason, by)
        for target in targets:
            self.target(target)
        for target in targets:
            self._fleet.latch.set(target, latched)
        return [self.carry_out(target, latched, by) for target in targets]

    def release(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """End a hold or a kill; the loop goes on from what was kept."""
        if self._fleet.latch.read().get(target) is None:
            raise Conflict(f"{target} is neither held nor killed", field="target", value=target)
        return self.carry_out(target, None, by, reason=said(reason))

    def target(self, target: str) -> Declared:
        """What files say of a target. Raises ``NotFound``."""
        found = self._declared.get(target)
        if found is None:
            raise NotFound(
                f"no target {target!r}",
                field="target",
                value=target,
                allowed=sorted(self._declared),
            )
        return found

    def carry_out(
        self, target: str, latched: Latched | None, by: Principal, *, reason: str = ""
    ) -> ControlReport:
        """Latch (again, if it is already), reach every replica, then record."""
        declared, began_s, now_us = self.target(target), self._mono(), self._clock()
        self._fleet.latch.set(target, latched)
        wish = self._wish(declared, latched, now_us)
        reached = self._fleet.bring(target, wish, now_us=now_us, under=latched)
        took_ms = round((self._mono() - began_s) * 1000, 1)
        recorded = self._record(target, latched, by, reason, reached, now_us)
        self._wake()
        return ControlReport(
            target=target, replicas=tuple(reached), took_ms=took_ms, recorded=recorded
        )

    def _wish(self, declared: Declared, latched: Latched | None, now_us: int) -> Desired:
        policies: list[Policy] = []
        foreign: list[Foreign] = []
        try:
            with self._store.read() as tx:
                policies = tx.policies(
                    target=declared.name, states=("kept", "in_force"), limit=MANY
                )
                foreign = tx.foreign(declared.name)
        except TrimtabError:
            if not (latched is not None and latched.state == "held"):
                return self._without_store(declared, latched)
        state = None if latched is None else latched.state
        control = Control(target=declared.name, hold=state == "held", killed=state == "killed")
        return desired(
            declared.target.baseline_settings(),
            policies,
            None,
            control,
            () if state == "killed" else foreign,
            on_kill=declared.target.on_kill,
            now_us=now_us,
        )

    def _without_store(self, declared: Declared, latched: Latched | None) -> Desired:
        """The wish when nobody can say what was kept: the engine's own word for it.

        What expires there is on trial or an emergency, and its fallback is the layer below.
        """
        killed = latched is not None
        if killed and declared.target.on_kill == "hold":
            return Desired(settings={}, hold=True)
        seen = self._fleet.first(declared.name).read()
        if seen is None or (killed and declared.target.on_kill == "baseline"):
            plain = declared.target.baseline_settings()
            return Desired(settings={k: Effective(setting=s) for k, s in plain.items()})
        return last_stable(seen)

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
                follow_latch(tx, target, latched, actor=by.id, now_us=now_us, reason=reason)
                tx.append_audit(
                    at_us=now_us,
                    actor=by.id,
                    action="control.reached",
                    subject=target,
                    target=target,
                    details={"replicas": {r.replica: r.detail for r in reached}},
                )
        except TrimtabError:
            return False
        return True

    def _latched(self, state: LatchState, reason: str, by: Principal) -> Latched:
        return Latched(state=state, actor=by.id, reason=said(reason), since_us=self._clock())


MANY = 10_000
"""More layers than a target can have."""


def said(reason: str) -> str:
    """A reason, trimmed. Raises ``Rejected`` when there is none, or too much of it."""
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Rejected(
            "say why", field="reason", value=reason[:50], allowed=f"1 to {MAX_REASON} characters"
        )
    return reason.strip()


def last_stable(seen: RuntimeConfig) -> Desired:
    """What an engine would have once everything that expires has expired."""
    return Desired(settings={s.knob: _stable(s) for s in seen.settings if _is_set(s)})


def _is_set(now: ObservedSetting) -> bool:
    below = now.fallback
    expires = now.expires_in_s is not None
    return not expires or (below is not None and (below.value is not None or below.law is not None))


def _stable(now: ObservedSetting) -> Effective:
    below = now.fallback
    if now.expires_in_s is None or below is None:
        value = None if now.law is not None else now.value
        return Effective(
            setting=Setting(value=value, law=now.law, shrink=now.shrink), policy_id=now.policy_id
        )
    return Effective(setting=Setting(value=below.value, law=below.law), policy_id=below.policy_id)


def follows(control: Control, latched: Latched | None) -> bool:
    """Whether the store has heard of the latch as it is now."""
    if latched is None:
        return not (control.hold or control.killed)
    return (control.hold, control.killed, control.since_us, control.actor) == (
        latched.state == "held",
        latched.state == "killed",
        latched.since_us,
        latched.actor,
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
        _resume(tx, target, actor=actor, now_us=now_us)
    elif latched.state == "killed":
        _undo_all(tx, target, actor=actor, now_us=now_us)
    else:
        _pause_all(tx, target, actor=actor, now_us=now_us)


def _undo_all(tx: Tx, target: str, *, actor: str, now_us: int) -> None:
    """After a kill nothing is on trial, in force for a while, or about to be."""
    for policy in tx.policies(
        target=target, states=("applying", "on_trial", "paused", "in_force"), limit=MANY
    ):
        tx.move(policy, "reverting", actor=actor, at_us=now_us, cause="killed", undo_us=now_us)
        end_trial(tx, policy, now_us)


def _pause_all(tx: Tx, target: str, *, actor: str, now_us: int) -> None:
    for trial in tx.trials(target=target, running=True):
        if trial.state != "running":
            continue
        tx.save_trial(blocks.pause(trial, now_us=now_us, by="hold"))
        policy = tx.policy(trial.plan.policy_id)
        if policy.state == "on_trial":
            tx.move(policy, "paused", actor=actor, at_us=now_us, cause="held")


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
