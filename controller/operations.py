"""What a person may do, as use cases: propose, approve, reject, revert, pause, resume, set a mode.

Each is one transaction with its audit entry; a lost race raises ``Conflict`` and changes nothing.
The loop then brings the engine after it. Hold, kill and release are in ``controller.control``.
"""

from __future__ import annotations

from typing import Final

from controller.approving import approval_of
from controller.baseline_acts import BaselineOperations
from controller.considering import Evaluation, consider, evaluate
from controller.declaring import ChangeOperations
from controller.following import MANY, said
from controller.hand_made import (
    Wanted,
    by_hand,
    check_metrics,
    check_unmoved,
    decision,
    denial,
    give_way,
    waiting_on,
)
from controller.reverting import check_on_top, newer_kept, take_away
from controller.spec_checks import check_setting
from controller.state import Declared
from controller.store.port import Principal, Tx
from controller.trial import blocks
from controller.trials import Trial
from policies.guardrails import refused
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.lifecycle import check_move
from policies.policy import Mode, Origin, OriginKind, Policy
from policies.proposal import Proposal
from policies.runtime_config import RuntimeConfig
from policies.settings import Setting
from signals.errors import Conflict, Rejected, Unavailable
from signals.events import MICROS


class Operations(ChangeOperations, BaselineOperations):
    """The use cases."""

    def propose(
        self,
        target: str,
        knob: str,
        setting: Setting,
        reason: str,
        *,
        by: Principal,
        scope: str = TARGET_SCOPE,
        supersede: bool = False,
    ) -> Policy:
        """A change proposed by hand, as ``propose_wanted``."""
        wanted = Wanted(
            target=target,
            knob=knob,
            setting=setting,
            reason=reason,
            scope=scope,
            supersede=supersede,
        )
        return self.propose_wanted(wanted, by=by)

    def propose_wanted(self, what: Wanted, *, by: Principal) -> Policy:
        """A change proposed by hand; it waits for approval whatever the mode.

        Raises ``Conflict`` naming the guardrail that denies it; the denial is recorded. Raises
        ``Rejected`` where it is to be judged by a metric that is not in force.
        """
        declared, seen, spec = self._known(what.target, what.knob, what.scope)
        check_setting(spec, what.setting)
        now_us = self._clock()
        wanted = what.proposal(spec, by)
        with self._store.write() as tx:
            check_metrics(tx, what)
            yields = waiting_on(tx, wanted) if what.supersede else []
            found = consider(
                tx,
                declared,
                seen,
                wanted,
                spec=spec,
                now_us=now_us,
                without=[one.id for one in yields],
            )
            policy = by_hand(declared, found, tx.modes(what.target), by=by, now_us=now_us)
            denied = refused(found.case)
            if denied is None:
                give_way(tx, yields, policy, by=by, now_us=now_us)
                tx.add_policy(policy)
                policy = tx.move(policy, "pending", actor=by.id, at_us=now_us)
            else:
                tx.add_decision(decision(denied, by=by, now_us=now_us))
        if denied is not None:
            raise denial(denied)
        self._wake()
        return policy

    def evaluate(
        self,
        target: str,
        knob: str,
        setting: Setting,
        *,
        scope: str = TARGET_SCOPE,
        origin: OriginKind = "person",
        emergency: bool = False,
    ) -> Evaluation:
        """What would become of a change, without making it. Changes nothing."""
        declared, seen, spec = self._known(target, knob, scope)
        wanted = Proposal(
            target=target,
            knob=knob,
            scope=scope,
            setting=setting,
            before=Setting(value=spec.boot),
            origin=Origin(kind=origin, name="evaluation"),
            reason="an evaluation",
            emergency=emergency,
        )
        with self._store.read() as tx:
            found = consider(tx, declared, seen, wanted, spec=spec, now_us=self._clock())
            return evaluate(tx, declared, found)

    def approve(self, policy_id: str, shown_digest: str, *, by: Principal) -> Policy:
        """Say yes to exactly what was shown; with high risk it needs a second person.

        Raises ``Conflict`` where the yes does not count, and where the place has moved since.
        """
        boot = self._boot(policy_id)
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            check_move(policy.id, policy.state, "approved")
            declared = self.target(policy.target)
            approval = approval_of(policy, shown_digest, by, now_us=now_us)
            check_unmoved(tx, declared, policy, boot)
            approvals = (*policy.approvals, approval)
            if len(approvals) < policy.approvals_needed:
                return tx.amend(policy, "seconded", actor=by.id, at_us=now_us, approvals=approvals)
            moved = tx.move(
                policy,
                "approved",
                actor=by.id,
                at_us=now_us,
                approvals=approvals,
                decided_by=by.id,
                expires_us=now_us + _lives_s(declared, policy) * MICROS,
            )
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
                cause=said(reason),
            )

    def revert(
        self, policy_id: str, reason: str, *, by: Principal, with_newer: bool = False
    ) -> Policy:
        """Take a policy's layer away, whatever the judge thinks of it.

        Raises ``Conflict`` naming the newer layer that lies on the same place. ``with_newer``: kept
        policies above it go first; a person's override stays, and covers the place as before.
        """
        now_us, cause = self._clock(), f"reverted by {by.name}: {said(reason)}"
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            newer = newer_kept(tx, policy)
            if not with_newer:
                check_on_top(tx, policy, newer, now_us)
            for above in newer:
                take_away(tx, above, f"{cause} (with {policy.id}, below it)", by.id, now_us)
            moved = take_away(tx, policy, cause, by.id, now_us)
        self._wake()
        return moved

    def pause(self, policy_id: str, reason: str, *, by: Principal) -> Policy:
        """Stop a trial's clock; its engine goes back to the baseline until ``resume``.

        One that something else paused is his from then on, and does not go on by itself.
        """
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            trial = None if policy.trial is None else tx.trial(policy.trial)
            if policy.state == "paused" and trial is not None and trial.paused_by != "person":
                policy = tx.move(policy, "on_trial", actor=by.id, at_us=now_us, cause=None)
            moved = tx.move(policy, "paused", actor=by.id, at_us=now_us, cause=said(reason))
            if trial is not None:
                tx.save_trial(blocks.pause(trial, now_us=now_us, by="person"))
        self._wake()
        return moved

    def resume(self, policy_id: str, *, by: Principal) -> Policy:
        """Go on with a paused trial, in a fresh unit."""
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(policy, "on_trial", actor=by.id, at_us=now_us, cause=None)
            _check_runs(tx, policy.target)
            if policy.trial is not None:
                tx.save_trial(_resumed(tx.trial(policy.trial), now_us))
        self._wake()
        return moved

    def set_mode(self, target: str, knob: str, mode: Mode, *, by: Principal) -> None:
        """Raise or lower what the loop may do with a knob. 409 when a file declares it."""
        declared = self.target(target)
        _spec_in(target, self._seen(target), knob)
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

    def _known(
        self, target: str, knob: str, scope: str
    ) -> tuple[Declared, RuntimeConfig, KnobSpec]:
        """What the file and the engine say of a place. Raises ``Rejected`` where there is none."""
        declared, seen = self.target(target), self._seen(target)
        spec = _spec_in(target, seen, knob)
        known = (TARGET_SCOPE, *declared.target.intents)
        if scope not in known:
            raise Rejected(
                f"{target} has no scope {scope!r}", field="scope", value=scope, allowed=known
            )
        spec.check_scope(scope, field="scope")
        return declared, seen, spec

    def _seen(self, target: str) -> RuntimeConfig:
        self.target(target)
        seen = self._fleet.first(target).read(max_age_s=60.0)
        if seen is None:
            raise Unavailable(f"the engine of {target} does not answer, so its knobs are unknown")
        return seen

    def _boot(self, policy_id: str) -> int | None:
        """The boot value of a policy's knob; None while the engine does not answer."""
        with self._store.read() as tx:
            policy = tx.policy(policy_id)
        seen = self._fleet.first(policy.target).read(max_age_s=60.0)
        specs = () if seen is None else seen.knobs
        return next((spec.boot for spec in specs if spec.name == policy.knob), None)


def _lives_s(declared: Declared, policy: Policy) -> int:
    """An approved change may wait so long for its turn; an emergency ends then, at work or not."""
    if policy.emergency:
        return declared.guardrails.emergency_s
    return declared.trial.approval_ttl_s


def _spec_in(target: str, seen: RuntimeConfig, knob: str) -> KnobSpec:
    specs = {spec.name: spec for spec in seen.knobs}
    if knob not in specs:
        raise Rejected(
            f"the engine of {target} has no knob {knob!r}",
            field="knob",
            value=knob,
            allowed=sorted(specs),
        )
    return specs[knob]


OTHERS_PAUSE: Final = {
    "emergency": "an emergency is in force; the trial goes on when it ends",
    "override": "an override covers it; the trial goes on when that ends",
    "change": "a declared change or a freeze window suspends it; the trial goes on after it",
}


def _check_runs(tx: Tx, target: str) -> None:
    """Raise ``Conflict`` where no trial may run now, whoever paused it."""
    control = tx.control(target)
    if control.detached:
        raise Conflict(f"{target} is detached; attach it first", field="target")
    if control.hold or control.killed:
        raise Conflict(f"{target} is held; release it first", field="target")
    acting = tx.policies(target=target, states=("applying", "in_force"), limit=MANY)
    if any(one.emergency for one in acting):
        raise Conflict("an emergency is in force; resume the trial when it ends", field="state")


def _resumed(trial: Trial, now_us: int) -> Trial:
    why = OTHERS_PAUSE.get(trial.paused_by or "")
    if why is not None:
        raise Conflict(why, field="state")
    return blocks.resume(trial, now_us=now_us)
