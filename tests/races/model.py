"""What people may do and what must come of it, written down a second time, without any store.

The loop's own moves are not predicted: the machine looks at what it did and tells the model
(``follow``). Whatever a person does is predicted to the last entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from controller.store.port import Principal
from policies.lifecycle import FINAL, State
from policies.policy import Policy

ControlState = Literal["free", "held", "killed"]

Written = tuple[str, str, str]
"""Actor, action, subject of an entry."""

LAYERED: tuple[State, ...] = ("applying", "on_trial", "paused", "in_force", "kept")


@dataclass
class Known:
    """A policy as the model knows it."""

    id: str
    knob: str
    value: int
    proposer: str
    state: State = "pending"
    approvals_needed: int = 1
    approvals: list[str] = field(default_factory=list)
    digest: str = ""
    by_hold: bool = False
    """Paused because of a hold, so a release lets it go on."""


@dataclass
class Model:
    """One target."""

    target: str
    control: ControlState = "free"
    policies: dict[str, Known] = field(default_factory=dict)

    def trial(self) -> Known | None:
        """The one policy that is on trial, or about to be."""
        on = [p for p in self.policies.values() if p.state in ("applying", "on_trial", "paused")]
        assert len(on) <= 1, f"one policy on trial, not {[p.id for p in on]}"
        return on[0] if on else None

    def born(self, policy: Policy, by: Principal) -> list[Written]:
        """Somebody proposed it."""
        self.policies[policy.id] = Known(
            id=policy.id,
            knob=policy.knob,
            value=policy.setting.value or 0,
            proposer=by.id,
            approvals_needed=policy.approvals_needed,
            digest=policy.shown_digest,
        )
        return [(by.id, f"policy.{state}", policy.id) for state in ("proposed", "pending")]

    def follow(self, policy: Policy) -> None:
        """The loop moved it, or bore it."""
        known = self.policies.get(policy.id)
        if known is None:
            known = Known(
                id=policy.id,
                knob=policy.knob,
                value=policy.setting.value or 0,
                proposer=policy.proposed_by,
                approvals_needed=policy.approvals_needed,
                digest=policy.shown_digest,
            )
            self.policies[policy.id] = known
        known.state = policy.state

    def approve(self, known: Known, by: Principal, digest: str) -> list[Written] | None:
        """None: refused."""
        if known.state != "pending" or digest != known.digest or by.id == known.proposer:
            return None
        if by.id in known.approvals:
            return None
        known.approvals.append(by.id)
        if len(known.approvals) < known.approvals_needed:
            return [(by.id, "policy.seconded", known.id)]
        known.state = "approved"
        return [(by.id, "policy.approved", known.id)]

    def reject(self, known: Known, by: Principal) -> list[Written] | None:
        """None: refused."""
        return self._moved(known, by, ("pending",), "rejected")

    def pause(self, known: Known, by: Principal) -> list[Written] | None:
        """None: refused."""
        return self._moved(known, by, ("on_trial",), "paused")

    def resume(self, known: Known, by: Principal) -> list[Written] | None:
        """None: refused."""
        if self.control != "free":
            return None
        return self._moved(known, by, ("paused",), "on_trial")

    def revert(self, known: Known, by: Principal) -> list[Written] | None:
        """None: refused. A trial of the same knob above it ends with it."""
        trial = self.trial()
        written = self._moved(known, by, LAYERED, "reverting")
        if written is None or trial is None or trial is known or trial.knob != known.knob:
            return written
        if trial.state in ("applying", "on_trial") and not trial.by_hold:
            trial.state = "reverting"
            written.append((by.id, "policy.reverting", trial.id))
        return written

    def hold(self, by: Principal) -> list[Written] | None:
        """What is on trial pauses until it is released."""
        self.control = "held"
        written = [(by.id, "control.held", self.target)]
        trial = self.trial()
        if trial is not None and trial.state in ("applying", "on_trial"):
            trial.by_hold = True
            if trial.state == "on_trial":
                trial.state = "paused"
                written.append((by.id, "policy.paused", trial.id))
        return written

    def kill(self, by: Principal) -> list[Written] | None:
        """What is not kept is taken back."""
        self.control = "killed"
        written = [(by.id, "control.killed", self.target)]
        for known in self.policies.values():
            if known.state in ("applying", "on_trial", "paused", "in_force"):
                known.state = "reverting"
                written.append((by.id, "policy.reverting", known.id))
        return written

    def release(self, by: Principal) -> list[Written] | None:
        """None: refused, nothing is latched."""
        if self.control == "free":
            return None
        self.control = "free"
        written = [(by.id, "control.released", self.target)]
        trial = self.trial()
        if trial is not None and trial.by_hold:
            trial.by_hold = False
            if trial.state == "paused":
                trial.state = "on_trial"
                written.append((by.id, "policy.on_trial", trial.id))
        return written

    def has(self, *states: State) -> bool:
        """Whether some policy is in one of these."""
        return any(known.state in states for known in self.policies.values())

    def live(self) -> list[Known]:
        """Policies that have not ended, oldest first."""
        return [known for known in self.policies.values() if known.state not in FINAL]

    def _moved(
        self, known: Known, by: Principal, before: tuple[State, ...], after: State
    ) -> list[Written] | None:
        if known.state not in before:
            return None
        known.state = after
        return [(by.id, f"policy.{after}", known.id)]
