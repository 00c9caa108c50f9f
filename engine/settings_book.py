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

A setting at an intent's scope is over the whole engine's, and is only there while it is set. While
a trial splits sessions, those of the candidate's arm have settings over what all have; they end
with the trial, and the trial with the first of them that expires.

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
from engine.arriving import Arriving, arriving, stamp_of
from engine.change_log import ChangeLog
from engine.laws_running import RunningLaw, Variables
from engine.settings_checks import check_patch, check_present, repeated
from engine.settings_in_force import EngineIdentity, HoldableClock, InForce, Instant, observed
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.laws import Law
from policies.runtime_config import (
    Arm,
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
from policies.session_split import same_split
from policies.settings import place, split


class SettingsBook:
    """See the module. Not thread-safe: its owner holds the lock.

    ``stamp`` is a new object exactly when the version changes; while sessions are split it names no
    trial, for what is told of the engine as a whole is of neither arm. The answers to the last
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
        self._candidate: dict[str, InForce] = {}
        self._arriving: Arriving | None = None
        self._version = 0
        self._epoch = 0
        self._trial: TrialStamp | None = None
        self.stamp = self._made_stamp(None)
        for spec in knobs:
            self._note("boot", now, at=spec.name, after=self._in_force[spec.name])

    # -- what is in force ----------------------------------------------------------------------

    def setting(self, knob: str) -> InForce:
        """The setting of one knob; ``KeyError`` for a knob this engine has not."""
        return self._in_force[knob]

    def values(self) -> dict[str, int]:
        """The number in force of every knob, for the whole engine."""
        return {knob: self._in_force[knob].observed for knob in self.specs}

    @property
    def arriving(self) -> Arriving:
        """What a request that arrives now gets; the same object until something changes."""
        if self._arriving is None:
            self._arriving = arriving(self.stamp, self._in_force, self._candidate, self._trial)
        return self._arriving

    @property
    def running_laws(self) -> list[RunningLaw]:
        """Every law at work, at any scope and in either arm."""
        found = (one.running for layer in self._layers for one in layer.values())
        return [running for running in found if running is not None]

    @property
    def held(self) -> bool:
        """Whether a hold is in force."""
        return self._clock.held

    def next_expiry_s(self, now: Instant) -> float:
        """The monotonic time at which the first setting expires; inf: none will, as things are."""
        every = (one for layer in self._layers for one in layer.values())
        due_s = [one.expires_s for one in every if one.expires_s is not None]
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
            settings=self._observed(self._in_force, now, running),
            log_from=self.log.first_seq,
            changes=self.log.since(after_seq + 1),
            candidate=tuple(
                replace(one, arm="candidate")
                for one in self._observed(self._candidate, now, running)
            ),
        )

    # -- what changes it -----------------------------------------------------------------------

    def pass_time(self, now: Instant) -> None:
        """Let due settings expire, then let every law look at its variable. Nothing while held."""
        if self._clock.held:
            return
        for at, setting in [*self._candidate.items()]:
            if self._is_due(setting, now):
                self._end_candidate(at, setting, now)
        for at, setting in [*self._in_force.items()]:
            if self._is_due(setting, now):
                self._expire(at, setting, now)
        for layer in self._layers:
            for at, setting in layer.items():
                if setting.running is not None:
                    self._advance(layer, at, setting, setting.running, now)

    def apply(self, patch: Patch, now: Instant, *, running: int = 0) -> RuntimeConfig:
        """Apply a patch whole, or raise ``Rejected``/``Conflict`` and change nothing."""
        first = self._answers.get(patch.change_id)
        if first is not None:
            return repeated(patch, *first)
        check_patch(patch, self.specs, self._classes)
        check_present(patch, epoch=self._epoch, present=self._present)
        first_entry = self.log.next_seq
        if not same_split(self._trial, patch.trial):
            self._candidate = {}
        before = [self._now_at(change) for change in patch.settings]
        for change in patch.settings:
            self._set(change, now)
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

    @property
    def _layers(self) -> tuple[dict[str, InForce], dict[str, InForce]]:
        return self._in_force, self._candidate

    def _layer(self, arm: Arm | None) -> dict[str, InForce]:
        return self._candidate if arm == "candidate" else self._in_force

    def _now_at(self, change: SettingChange) -> InForce | None:
        return self._layer(change.arm).get(place(change.knob, change.scope))

    def _set(self, change: SettingChange, now: Instant) -> None:
        at, layer = place(change.knob, change.scope), self._layer(change.arm)
        inherits = change.value is None and change.law is None
        if inherits and (change.arm is not None or change.scope != TARGET_SCOPE):
            layer.pop(at, None)
        else:
            layer[at] = self._changed(change, now)

    def _changed(self, change: SettingChange, now: Instant) -> InForce:
        before = self._now_at(change)
        setting = self._chosen(change.knob, change.value, change.law, before, now)
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

    def _is_due(self, setting: InForce, now: Instant) -> bool:
        due_s = setting.expires_s
        return due_s is not None and self._clock.now_s(now.mono_s) >= due_s

    def _expire(self, at: str, setting: InForce, now: Instant) -> None:
        fallback, (knob, scope) = setting.fallback or Fallback(), split(at)
        after = None
        if scope == TARGET_SCOPE or fallback.value is not None or fallback.law is not None:
            chosen = self._chosen(knob, fallback.value, fallback.law, setting, now)
            after = self._in_force[at] = replace(chosen, policy_id=fallback.policy_id)
        else:
            del self._in_force[at]
        self._end_trial()
        self._note("expiry", now, at=at, before=setting, after=after, policy_id=setting.policy_id)

    def _end_candidate(self, at: str, setting: InForce, now: Instant) -> None:
        self._end_trial()
        self._note(
            "expiry", now, at=at, before=setting, policy_id=setting.policy_id, arm="candidate"
        )

    def _end_trial(self) -> None:
        self._candidate = {}
        self._restamp(None)

    def _chosen(
        self, knob: str, value: int | None, law: Law | None, before: InForce | None, now: Instant
    ) -> InForce:
        boot = self.specs[knob].boot
        if law is None:
            return InForce(value=boot if value is None else value)
        running = laws_running.begin(
            law, None if before is None else before.running, self._variables, now_s=now.mono_s
        )
        return InForce(value=boot, running=running)

    def _advance(
        self,
        layer: dict[str, InForce],
        at: str,
        setting: InForce,
        running: RunningLaw,
        now: Instant,
    ) -> None:
        moved = running.advance(self._variables, now_s=now.mono_s)
        if moved is running:
            return
        after = layer[at] = replace(setting, running=moved)
        if moved.value != running.value:
            self._arriving = None
            self._note(
                "law",
                now,
                at=at,
                before=setting,
                after=after,
                policy_id=setting.policy_id,
                arm="candidate" if layer is self._candidate else None,
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
        self._arriving = None
        arm_wide = None if trial is None or trial.split is not None else trial
        self.stamp = self._made_stamp(arm_wide)

    # -- how it is told ------------------------------------------------------------------------

    @property
    def _present(self) -> str:
        return f"{self._identity.incarnation}:{self._version}"

    def _made_stamp(self, trial: TrialStamp | None) -> Stamp:
        return stamp_of(
            Stamp(
                target=self._identity.target,
                replica=self._identity.replica,
                incarnation=self._identity.incarnation,
                version=self._version,
                digest="",
            ),
            self._in_force,
            trial,
        )

    def _observed(
        self, layer: Mapping[str, InForce], now: Instant, running: int
    ) -> tuple[ObservedSetting, ...]:
        return tuple(
            observed(at, one, self.specs[split(at)[0]], self._clock, now, running=running)
            for at, one in layer.items()
        )

    def _note_patch(self, patch: Patch, before: Sequence[InForce | None], now: Instant) -> None:
        if not patch.settings:
            self._note("patch", now, change_id=patch.change_id)
        for change, had in zip(patch.settings, before, strict=True):
            self._note(
                "patch",
                now,
                change_id=patch.change_id,
                at=place(change.knob, change.scope),
                before=had,
                after=self._now_at(change),
                policy_id=change.policy_id,
                arm=change.arm,
            )

    def _note(
        self,
        cause: Cause,
        now: Instant,
        *,
        change_id: str | None = None,
        at: str | None = None,
        before: InForce | None = None,
        after: InForce | None = None,
        policy_id: str | None = None,
        arm: Arm | None = None,
    ) -> None:
        knob, scope = (None, TARGET_SCOPE) if at is None else split(at)
        change = Change(
            seq=self.log.next_seq,
            at=now.wall_s,
            cause=cause,
            version=self._version,
            digest=self.stamp.digest,
            change_id=change_id,
            knob=knob,
            before=None if before is None else before.observed,
            after=None if after is None else after.observed,
            policy_id=policy_id,
            law=None if after is None else after.law,
            holder=None if after is None else after.policy_id,
            trial=self._trial,
            scope=scope,
            arm=arm,
        )
        self.log.append(change)

    def _remember(self, patch: Patch, answer: RuntimeConfig) -> None:
        self._answers[patch.change_id] = (patch, answer)
        while len(self._answers) > self._remembered:
            self._answers.popitem(last=False)
