"""The settings of a running engine: what is in force, since which change, and until when. Sans I/O.

Whoever owns the book calls ``pass_time`` and ``apply`` at a step boundary, one at a time, and hands
in the time. What counts as what:

====================  =======  ====================================================================
cause                 version  what happens
====================  =======  ====================================================================
``boot``              0        every knob at its boot value
``patch``             +1       all of a patch's settings and its trial, at once
``hold``/``release``  same     logged beside the patch that carried it
``expiry``            +1       one setting goes to its fallback (a value, a law, or the boot value)
``law``               same     a law moved: the observed value changes, the setting does not
====================  =======  ====================================================================

The digest is of the settings (knob -> value or law), never of the trial, who set them, or where a
law stands: equal digests mean equal settings. An expiry also ends the trial in the stamp, for what
is then in force is no longer the arm that the stamp names.

While held, time stands still for expiries (what was left of each is kept and goes on at release)
and every law stays at its present value. A patch is still applied: the hold binds the loop, not the
operator.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from engine import laws_running
from engine.change_log import ChangeLog
from engine.laws_running import RunningLaw, Variables
from engine.settings_checks import check_patch
from engine.settings_in_force import EngineIdentity, HoldableClock, InForce, Instant, digest
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.laws import Law
from policies.runtime_config import (
    Cause,
    Change,
    Fallback,
    ObservedSetting,
    Patch,
    RuntimeConfig,
    SettingChange,
    Stamp,
    TrialStamp,
)
from signals.errors import Conflict


class SettingsBook:
    """See the module. Not thread-safe: its owner holds the lock.

    ``stamp`` is a new object exactly when the version changes. The answers to the last
    ``remembered`` patches are kept for callers that repeat one.
    """

    def __init__(
        self,
        identity: EngineIdentity,
        knobs: Sequence[KnobSpec],
        variables: Variables,
        classes: Sequence[str],
        *,
        remembered: int,
        now: Instant,
    ) -> None:
        self.specs = {spec.name: spec for spec in knobs}
        self.log = ChangeLog()
        self._identity = identity
        self._variables = variables
        self._classes = tuple(classes)
        self._answers: OrderedDict[str, tuple[Patch, RuntimeConfig]] = OrderedDict()
        self._remembered = remembered
        self._clock = HoldableClock()
        self._in_force = {spec.name: InForce(value=spec.boot) for spec in knobs}
        self._version = 0
        self._epoch = 0
        self._trial: TrialStamp | None = None
        self.stamp = self._make_stamp()
        for spec in knobs:
            self._note("boot", now, knob=spec.name, after=self._in_force[spec.name])

    # -- what is in force ----------------------------------------------------------------------

    def setting(self, knob: str) -> InForce:
        """The setting of one knob; ``KeyError`` for a knob this engine has not."""
        return self._in_force[knob]

    def values(self) -> dict[str, int]:
        """The number in force of every knob."""
        return {knob: setting.observed for knob, setting in self._in_force.items()}

    @property
    def held(self) -> bool:
        """Whether a hold is in force."""
        return self._clock.held

    def next_expiry_s(self, now: Instant) -> float:
        """The monotonic time at which the first setting expires; inf: none will, as things are."""
        due_s = [one.expires_s for one in self._in_force.values() if one.expires_s is not None]
        if self._clock.held or not due_s:
            return math.inf
        return now.mono_s + min(due_s) - self._clock.now_s(now.mono_s)

    def view(self, now: Instant, *, after_seq: int = -1, running: int = 0) -> RuntimeConfig:
        """The answer to GET: everything in force, and the changes numbered above ``after_seq``.

        ``running`` is the number of running sequences, which tells whether a lowered cap drains.
        """
        return RuntimeConfig(
            target=self._identity.target,
            replica=self._identity.replica,
            incarnation=self._identity.incarnation,
            version=self._version,
            digest=self.stamp.digest,
            epoch=self._epoch,
            hold=self._clock.held,
            engine_time=now.wall_s,
            trial=self._trial,
            knobs=tuple(self.specs.values()),
            settings=tuple(self._observe(knob, now, running) for knob in self.specs),
            log_from=self.log.first_seq,
            changes=self.log.since(after_seq + 1),
        )

    # -- what changes it -----------------------------------------------------------------------

    def pass_time(self, now: Instant) -> None:
        """Let due settings expire, then let every law look at its variable. Nothing while held."""
        if self._clock.held:
            return
        for knob, setting in self._in_force.items():
            if setting.expires_s is not None and self._clock.now_s(now.mono_s) >= setting.expires_s:
                self._expire(knob, setting, now)
        for knob, setting in self._in_force.items():
            if setting.running is not None:
                self._advance(knob, setting, setting.running, now)

    def apply(self, patch: Patch, now: Instant, *, running: int = 0) -> RuntimeConfig:
        """Apply a patch whole, or raise ``Rejected``/``Conflict`` and change nothing."""
        first = self._answers.get(patch.change_id)
        if first is not None:
            return _repeated(patch, *first)
        check_patch(patch, self.specs, self._classes)
        self._check_present(patch)
        first_entry = self.log.next_seq
        before = self.values()
        for change in patch.settings:
            self._in_force[change.knob] = self._changed(change, now)
        self._epoch = patch.epoch
        self._restamp(patch.trial)
        self._note_patch(patch, before, now)
        self._switch_hold(patch, now)
        answer = replace(
            self.view(now, after_seq=first_entry - 1, running=running),
            applied_at=now.wall_s,
            change_id=patch.change_id,
        )
        self._remember(patch, answer)
        return answer

    def _check_present(self, patch: Patch) -> None:
        if patch.epoch < self._epoch:
            raise Conflict(
                f"fenced: epoch {patch.epoch} is lower than {self._epoch}, which has been seen",
                field="epoch",
                value=patch.epoch,
                allowed=f">= {self._epoch}",
            )
        present = f"{self._identity.incarnation}:{self._version}"
        if patch.expected != present:
            raise Conflict(
                f"stale: {patch.expected} was expected, but {present} is in force",
                field="expected",
                value=patch.expected,
                allowed=present,
            )

    def _changed(self, change: SettingChange, now: Instant) -> InForce:
        setting = self._chosen(change.knob, change.value, change.law, now)
        expires_s = None
        if change.expires_in_s is not None:
            expires_s = self._clock.now_s(now.mono_s) + change.expires_in_s
        return replace(
            setting,
            shrink=change.shrink,
            policy_id=change.policy_id,
            fallback=change.fallback,
            expires_s=expires_s,
        )

    def _expire(self, knob: str, setting: InForce, now: Instant) -> None:
        fallback = setting.fallback or Fallback()
        chosen = self._chosen(knob, fallback.value, fallback.law, now)
        after = replace(chosen, policy_id=fallback.policy_id)
        self._in_force[knob] = after
        self._restamp(None)
        self._note(
            "expiry",
            now,
            knob=knob,
            before=setting.observed,
            after=after,
            policy_id=setting.policy_id,
        )

    def _chosen(self, knob: str, value: int | None, law: Law | None, now: Instant) -> InForce:
        boot = self.specs[knob].boot
        if law is None:
            return InForce(value=boot if value is None else value)
        before = self._in_force[knob].running
        running = laws_running.begin(law, before, self._variables, now_s=now.mono_s)
        return InForce(value=boot, running=running)

    def _advance(self, knob: str, setting: InForce, running: RunningLaw, now: Instant) -> None:
        moved = running.advance(self._variables, now_s=now.mono_s)
        if moved is running:
            return
        after = self._in_force[knob] = replace(setting, running=moved)
        if moved.value != running.value:
            self._note(
                "law",
                now,
                knob=knob,
                before=running.value,
                after=after,
                policy_id=setting.policy_id,
            )

    def _switch_hold(self, patch: Patch, now: Instant) -> None:
        if patch.hold is None or patch.hold == self._clock.held:
            return
        if patch.hold:
            self._clock.hold(now.mono_s)
        else:
            self._clock.release(now.mono_s)
        self._note("hold" if patch.hold else "release", now, change_id=patch.change_id)

    def _restamp(self, trial: TrialStamp | None) -> None:
        self._version += 1
        self._trial = trial
        self.stamp = self._make_stamp()

    # -- how it is told ------------------------------------------------------------------------

    def _observe(self, knob: str, now: Instant, running: int) -> ObservedSetting:
        setting = self._in_force[knob]
        left_s = next_change_at = None
        if setting.expires_s is not None:
            left_s = max(0.0, setting.expires_s - self._clock.now_s(now.mono_s))
            next_change_at = None if self._clock.held else now.wall_s + left_s
        drains = self.specs[knob].capability == "drain"
        return ObservedSetting(
            knob=knob,
            scope=TARGET_SCOPE,
            value=setting.observed,
            law=setting.law,
            shrink=setting.shrink,
            policy_id=setting.policy_id,
            fallback=setting.fallback,
            expires_in_s=left_s,
            next_change_at=next_change_at,
            draining=drains and running > setting.observed,
        )

    def _make_stamp(self) -> Stamp:
        settings = self._in_force.items()
        policies = (setting.policy_id for _, setting in settings if setting.policy_id is not None)
        return Stamp(
            target=self._identity.target,
            replica=self._identity.replica,
            incarnation=self._identity.incarnation,
            version=self._version,
            digest=digest({knob: setting.law or setting.value for knob, setting in settings}),
            trial=self._trial,
            policies=tuple(dict.fromkeys(policies)),
        )

    def _note_patch(self, patch: Patch, before: Mapping[str, int], now: Instant) -> None:
        if not patch.settings:
            self._note("patch", now, change_id=patch.change_id)
        for change in patch.settings:
            self._note(
                "patch",
                now,
                change_id=patch.change_id,
                knob=change.knob,
                before=before[change.knob],
                after=self._in_force[change.knob],
                policy_id=change.policy_id,
            )

    def _note(
        self,
        cause: Cause,
        now: Instant,
        *,
        change_id: str | None = None,
        knob: str | None = None,
        before: int | None = None,
        after: InForce | None = None,
        policy_id: str | None = None,
    ) -> None:
        change = Change(
            seq=self.log.next_seq,
            at=now.wall_s,
            cause=cause,
            version=self._version,
            digest=self.stamp.digest,
            change_id=change_id,
            knob=knob,
            before=before,
            after=None if after is None else after.observed,
            policy_id=policy_id,
            law=None if after is None else after.law,
            holder=None if after is None else after.policy_id,
            trial=self._trial,
        )
        self.log.append(change)

    def _remember(self, patch: Patch, answer: RuntimeConfig) -> None:
        self._answers[patch.change_id] = (patch, answer)
        while len(self._answers) > self._remembered:
            self._answers.popitem(last=False)


def _repeated(patch: Patch, first: Patch, answer: RuntimeConfig) -> RuntimeConfig:
    """The first answer, unless the id now names another change.

    ``expected`` and ``epoch`` may differ: a caller that timed out and read back sends new ones.
    """
    if (patch.settings, patch.trial, patch.hold) == (first.settings, first.trial, first.hold):
        return answer
    raise Conflict(
        f"change {patch.change_id} was applied with other content",
        field="change_id",
        value=patch.change_id,
        allowed="a new id for a new change",
    )
