"""What a person may do, as use cases: propose, approve, reject, revert, pause, resume, set a mode.

Each is one transaction with its audit entry; a lost race raises ``Conflict`` and changes nothing.
The loop then brings the engine after it. Hold, kill and release are in ``controller.control``.
"""

from __future__ import annotations

import os

from controller.control import ControlOperations
from controller.following import MANY, end_trial, said
from controller.store.port import Principal, Tx
from controller.trial import blocks
from controller.trials import Trial
from engine.generation import CLASSES
from policies import laws
from policies.ids import new_id
from policies.knobs import KnobSpec
from policies.policy import Mode, Origin, Policy
from policies.settings import Setting
from signals.errors import Conflict, Rejected, Unavailable


class Operations(ControlOperations):
    """The use cases."""

    def propose(
        self, target: str, knob: str, setting: Setting, reason: str, *, by: Principal
    ) -> Policy:
        """A change proposed by hand; it waits for another person's approval whatever the mode."""
        declared = self.target(target)
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
            reason=said(reason),
            risk=spec.risk,
            mode=declared.target.knobs.mode(knob),
            proposed_by=by.id,
            created_us=now_us,
            updated_us=now_us,
            expires_us=now_us + declared.trial.proposal_ttl_s * 1_000_000,
        )
        with self._store.write() as tx:
            _check_room(tx, target, declared.guardrails.max_pending)
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
            now_us = self._clock()
            waits_s = self.target(policy.target).trial.approval_ttl_s
            moved = tx.move(
                policy,
                "approved",
                actor=by.id,
                at_us=now_us,
                decided_by=by.id,
                expires_us=now_us + waits_s * 1_000_000,
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
                cause=f"reverted by {by.name}: {said(reason)}",
                undo_us=now_us,
            )
            end_trial(tx, policy, now_us)
            _disturb(tx, policy, actor=by.id, now_us=now_us)
        self._wake()
        return moved

    def pause(self, policy_id: str, reason: str, *, by: Principal) -> Policy:
        """Stop a trial's clock; its engine goes back to the baseline until ``resume``."""
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(policy, "paused", actor=by.id, at_us=now_us, cause=said(reason))
            if policy.trial is not None:
                trial = tx.trial(policy.trial)
                tx.save_trial(blocks.pause(trial, now_us=now_us, by="person"))
        self._wake()
        return moved

    def resume(self, policy_id: str, *, by: Principal) -> Policy:
        """Go on with a paused trial, in a fresh unit."""
        now_us = self._clock()
        with self._store.write() as tx:
            policy = tx.policy(policy_id)
            moved = tx.move(policy, "on_trial", actor=by.id, at_us=now_us, cause=None)
            control = tx.control(policy.target)
            if control.hold or control.killed:
                raise Conflict(f"{policy.target} is held; release it first", field="target")
            if policy.trial is not None:
                tx.save_trial(_resumed(tx.trial(policy.trial), now_us))
        self._wake()
        return moved

    def set_mode(self, target: str, knob: str, mode: Mode, *, by: Principal) -> None:
        """Raise or lower what the loop may do with a knob. 409 when a file declares it."""
        declared = self.target(target)
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

    def _spec(self, target: str, knob: str) -> KnobSpec:
        self.target(target)
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


def _resumed(trial: Trial, now_us: int) -> Trial:
    if trial.paused_by == "emergency":
        raise Conflict("an emergency is in force; the trial goes on when it ends", field="state")
    return blocks.resume(trial, now_us=now_us)


def _check_room(tx: Tx, target: str, most: int) -> None:
    """Raise ``Conflict`` when too many proposals already wait for a person or for their turn."""
    waiting = len(tx.policies(target=target, states=("pending", "approved"), limit=MANY))
    if waiting >= most:
        raise Conflict(
            f"{waiting} policies of {target} already wait; answer or revert some first",
            field="target",
            value=target,
            allowed=f"at most {most} (guardrails.max_pending)",
        )


def _disturb(tx: Tx, reverted: Policy, *, actor: str, now_us: int) -> None:
    """A layer is gone from under a running trial: its arms are no longer those that were frozen."""
    for trial in tx.trials(target=reverted.target, running=True):
        policy = tx.policy(trial.plan.policy_id)
        if policy.id == reverted.id or trial.state != "running":
            continue
        if policy.knob == reverted.knob and policy.state in ("applying", "on_trial"):
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


def _check(spec: KnobSpec, setting: Setting) -> None:
    """Raise ``Rejected`` for what the engine would refuse; approvals should mean something."""
    if (setting.value is None) == (setting.law is None):
        raise Rejected("give a value or a law, not both", field="setting")
    if setting.shrink == "preempt" and spec.capability != "drain":
        raise Rejected(
            f"{spec.name} has nothing to preempt",
            field="shrink",
            value=setting.shrink,
            allowed=("drain",),
        )
    if setting.law is not None:
        laws.check(setting.law, lambda value, field: spec.check(value, field=field), field="law")
        if setting.law.class_ not in (None, *CLASSES):
            raise Rejected(
                f"no class {setting.law.class_!r}",
                field="law.class",
                value=setting.law.class_,
                allowed=CLASSES,
            )
    elif setting.value is not None:
        spec.check(setting.value, field="value")
