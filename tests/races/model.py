"""What people may do and what must come of it, written down a second time, without any store.

The loop's own moves are not predicted: the machine looks at what it did and tells the model
(``follow``). Whatever a person does is predicted to the last entry; ``None``: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from controller.store.port import Principal
from controller.trials import Trial
from policies.changes import DeclaredChange
from policies.lifecycle import FINAL, State
from policies.overrides import Override, OverrideKind
from policies.policy import Policy
from policies.settings import Setting

ControlState = Literal["free", "held", "killed"]

Written = tuple[str, str, str]
"""Actor, action, subject of an entry."""

LAYERED: tuple[State, ...] = ("applying", "on_trial", "paused", "in_force", "kept")
TRIED: tuple[State, ...] = ("applying", "on_trial", "paused")
SENIOR = ("approver", "admin")


@dataclass
class Known:
    """A policy as the model knows it. ``pausers``: who may let its trial go on again."""

    policy: Policy
    state: State
    paused_by: str | None = None
    approvals: list[Principal] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.policy.id

    @property
    def knob(self) -> str:
        return self.policy.knob


@dataclass
class Model:
    """One target."""

    target: str
    baseline: dict[str, Setting]
    control: ControlState = "free"
    now_us: int = 0
    policies: dict[str, Known] = field(default_factory=dict)
    overrides: dict[str, Override] = field(default_factory=dict)
    changes: dict[str, DeclaredChange] = field(default_factory=dict)

    # -- what is seen ----------------------------------------------------------------------

    def follow(
        self, policies: Iterable[Policy], trials: Iterable[Trial], overrides: Iterable[Override]
    ) -> None:
        """The loop moved these, or bore them."""
        for policy in policies:
            known = self.policies.setdefault(policy.id, Known(policy, policy.state))
            known.state, known.paused_by = policy.state, None
        for trial in trials:
            self.policies[trial.plan.policy_id].paused_by = trial.paused_by
        self.overrides = {one.id: one for one in overrides}

    def trial(self) -> Known | None:
        """The one policy that is on trial, or about to be."""
        on = [known for known in self.policies.values() if known.state in TRIED]
        assert len(on) <= 1, f"one policy on trial, not {[known.id for known in on]}"
        return on[0] if on else None

    def has(self, *states: State) -> bool:
        """Whether some policy is in one of these."""
        return any(known.state in states for known in self.policies.values())

    def live(self) -> list[Known]:
        """Policies that have not ended, oldest first."""
        return [known for known in self.policies.values() if known.state not in FINAL]

    def active(self, *kinds: OverrideKind) -> list[Override]:
        """Overrides that have not ended, oldest first."""
        found = sorted(self.overrides.values(), key=lambda one: one.id)
        return [one for one in found if one.state == "active" and one.kind in kinds]

    def below(self, knob: str) -> Setting | None:
        """What a knob has without any trial and override."""
        kept = [p for p in self.policies.values() if p.state == "kept" and p.knob == knob]
        newest = max(kept, key=lambda known: known.id, default=None)
        return self.baseline.get(knob) if newest is None else newest.policy.setting

    def value(self, knob: str, arm: str | None) -> int | None:
        """What the engine must show now; None where nobody can say. ``arm``: by its own stamp."""
        force = [one for one in self.active("force") if one.knob == knob]
        pin = [one for one in self.active("pin") if one.knob == knob]
        trial, wished = self.trial(), self.below(knob)
        if force:
            wished = force[-1].setting
        elif self.control == "held":
            return None
        elif self.control == "free" and pin:
            wished = pin[-1].setting
        elif self.control == "free" and trial is not None and trial.knob == knob:
            wished = trial.policy.setting if arm == "candidate" else wished
        return None if wished is None else wished.value

    # -- policies --------------------------------------------------------------------------

    def born(self, policy: Policy, by: Principal) -> list[Written]:
        """Somebody proposed it."""
        self.policies[policy.id] = Known(policy, "pending")
        return [(by.id, f"policy.{state}", policy.id) for state in ("proposed", "pending")]

    def open_twin(self, knob: str, setting: Setting) -> bool:
        """Whether the same change is under way, or made already: it can't be proposed."""
        twins = (p for p in self.live() if p.knob == knob and p.state != "kept")
        return setting == self.below(knob) or any(p.policy.setting == setting for p in twins)

    def approve(self, known: Known, by: Principal, digest: str) -> list[Written] | None:
        """Four eyes, one of them senior, where the risk is high; nobody his own, unless safer."""
        policy, said_yes = known.policy, known.approvals
        if known.state != "pending" or digest != policy.shown_digest or by in said_yes:
            return None
        if by.id == policy.proposed_by and not policy.lowers_risk:
            return None
        ground = self.below(known.knob)
        if ground is not None and policy.before != ground:
            return None
        last = len(said_yes) + 1 == policy.approvals_needed
        seniors = any(one.role in SENIOR for one in (*said_yes, by))
        if policy.approvals_needed > 1 and last and not seniors:
            return None
        said_yes.append(by)
        if not last:
            return [(by.id, "policy.seconded", known.id)]
        known.state = "approved"
        return [(by.id, "policy.approved", known.id)]

    def reject(self, known: Known, by: Principal) -> list[Written] | None:
        """Only what waits for an answer."""
        return self._moved(known, by, ("pending",), "rejected")

    def pause(self, known: Known, by: Principal) -> list[Written] | None:
        """What runs, or what a hold has paused: that is his from then on."""
        taken: list[Written] = []
        if known.state == "paused" and known.paused_by != "person":
            taken = self._moved(known, by, ("paused",), "on_trial") or []
        written = self._moved(known, by, ("on_trial",), "paused")
        known.paused_by = "person" if written else known.paused_by
        return None if written is None else [*taken, *written]

    def resume(self, known: Known, by: Principal) -> list[Written] | None:
        """Only what a person paused, and not under a hold."""
        if self.control != "free" or known.paused_by != "person":
            return None
        written = self._moved(known, by, ("paused",), "on_trial")
        known.paused_by = None if written else known.paused_by
        return written

    def revert(self, known: Known, by: Principal) -> list[Written] | None:
        """Not from under a newer layer. A trial of the same knob above it ends with it."""
        if known.state == "kept" and self._above(known):
            return None
        trial = self.trial()
        written = self._moved(known, by, LAYERED, "reverting")
        if written is None or trial is None or trial is known or trial.knob != known.knob:
            return written
        if trial.state in ("applying", "on_trial") and trial.paused_by is None:
            trial.state = "reverting"
            written.append((by.id, "policy.reverting", trial.id))
        return written

    # -- the target ------------------------------------------------------------------------

    def hold(self, by: Principal) -> list[Written] | None:
        """What is on trial pauses until it is released."""
        self.control = "held"
        written = [(by.id, "control.held", self.target)]
        trial = self.trial()
        if trial is not None and trial.paused_by is None:
            trial.paused_by = "hold"
            written += self._moved(trial, by, ("on_trial",), "paused") or []
        return written

    def kill(self, by: Principal) -> list[Written] | None:
        """What is not kept is taken back, and so are pins."""
        self.control = "killed"
        written = [(by.id, "control.killed", self.target)]
        for known in self.policies.values():
            written += self._moved(known, by, (*TRIED, "in_force"), "reverting") or []
        for pin in self.active("pin"):
            written += self._ended(pin, by)
        return written

    def release(self, by: Principal) -> list[Written] | None:
        """Only what is latched."""
        if self.control == "free":
            return None
        self.control = "free"
        written = [(by.id, "control.released", self.target)]
        trial = self.trial()
        if trial is not None and trial.paused_by == "hold":
            trial.paused_by = None
            written += self._moved(trial, by, ("paused",), "on_trial") or []
        return written

    # -- overrides and changes -------------------------------------------------------------

    def override(self, kind: OverrideKind, knob: str, by: Principal) -> list[Written] | None:
        """One of a kind on a knob; its own entry is added once its id is known."""
        if kind == "pin" and self.control == "killed":
            return None
        same = [one for one in self.active(kind) if one.knob == knob]
        return [entry for one in same for entry in self._ended(one, by)]

    def unset(self, override: Override, by: Principal) -> list[Written] | None:
        """Only while it is active."""
        return self._ended(override, by) if override.state == "active" else None

    def end_change(self, change: DeclaredChange, by: Principal) -> list[Written] | None:
        """Only what is not over."""
        if change.until_us is not None and change.until_us <= self.now_us:
            return None
        return [(by.id, "change.ended", change.id)]

    def _above(self, known: Known) -> bool:
        newer = any(
            p.state == "kept" and p.knob == known.knob and p.id > known.id
            for p in self.policies.values()
        )
        covers = (one.knob == known.knob for one in self.active("pin", "force"))
        return newer or any(covers)

    def _ended(self, override: Override, by: Principal) -> list[Written]:
        del self.overrides[override.id]
        return [(by.id, "override.ended", override.id)]

    def _moved(
        self, known: Known, by: Principal, before: tuple[State, ...], after: State
    ) -> list[Written] | None:
        if known.state not in before:
            return None
        known.state = after
        return [(by.id, f"policy.{after}", known.id)]
