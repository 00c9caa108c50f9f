"""Detach: take the hand off an engine and leave it as it stands; attach: take it up again.

A detached engine keeps every setting that it has. Laws go on running in it, for they are its own.
What was to expire is made to stay, or left to expire, as the operator says. Nothing is read into
policies or judged until it is attached; what others changed meanwhile is then kept as a pin for a
while, like any stranger's change.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Struct

from controller.control import ControlReport
from controller.desired import Desired
from controller.fleet import Reached
from controller.latch import LatchState
from controller.rollback import RollbackOperations
from controller.store.port import Principal
from controller.wishes import all_places
from policies.overrides import Expiries
from policies.runtime_config import ObservedSetting, RuntimeConfig
from policies.settings import Effective, Setting, place
from signals.errors import Conflict

FREE: Final[tuple[LatchState, ...]] = ("released",)
DETACHED: Final[tuple[LatchState, ...]] = ("detached",)


class DetachReport(Struct, frozen=True, kw_only=True):
    """What a detached engine is left with. ``words``: one line for each thing to know."""

    target: str
    replicas: tuple[Reached, ...]
    words: tuple[str, ...]
    took_ms: float
    recorded: bool


class DetachOperations(RollbackOperations):
    """Detach and attach, beside rollback."""

    def detach(
        self, target: str, reason: str, *, expiries: Expiries, by: Principal
    ) -> DetachReport:
        """Leave the engine as it stands. ``keep``: what expires there stays; ``let``: it expires.

        Raises ``Conflict`` when the target is held or killed: a hold would stay in the engine.
        """
        self.target(target)
        seen = self._fleet.glimpse(target, max_age_s=1.0)
        reports = self.carry_out(
            [target],
            self._latched("detached", reason, by),
            by,
            over=FREE,
            wish=partial(_left, keep=expiries == "keep"),
        )
        if not reports:
            raise self._stands(target)
        report = reports[0]
        return DetachReport(
            target=target,
            replicas=report.replicas,
            words=tuple(_words(seen, expiries)),
            took_ms=report.took_ms,
            recorded=report.recorded,
        )

    def attach(self, target: str, reason: str, *, by: Principal) -> ControlReport:
        """Let the loop go on with it. Raises ``Conflict`` unless it is detached."""
        self.target(target)
        released = self._latched("released", reason, by)
        reports = self.carry_out([target], released, by, over=DETACHED, wish=_untouched)
        if not reports:
            raise Conflict(f"{target} is not detached", field="target", value=target)
        return reports[0]

    def _stands(self, target: str) -> Conflict:
        latched = self._fleet.latch.read().get(target)
        if latched is None:
            return Conflict(f"{target} was latched until now; try again", field="target")
        instead = "" if latched.state == "detached" else "; release it first"
        return Conflict(f"{target} is {latched.state} already{instead}", field="target")


def _left(seen: RuntimeConfig, *, keep: bool) -> Desired:
    """As it stands, but for the trial's stamp and, with ``keep``, for what would expire."""
    expiring = {
        place(one.knob, one.scope): Effective(setting=_present(one), policy_id=one.policy_id)
        for one in seen.settings
        if keep and one.expires_in_s is not None
    }
    alone = tuple(at for at in all_places(seen) if at not in expiring)
    return Desired(settings=expiring, left_alone=alone, hold=seen.hold)


def _untouched(seen: RuntimeConfig) -> Desired:
    return Desired(settings={}, trial=seen.trial, hold=seen.hold, left_alone=all_places(seen))


def _present(one: ObservedSetting) -> Setting:
    value = None if one.law is not None else one.value
    return Setting(value=value, law=one.law, shrink=one.shrink)


def _words(seen: RuntimeConfig | None, expiries: Expiries) -> list[str]:
    if seen is None:
        return ["the engine does not answer; it keeps whatever it has"]
    told = [_line(one, expiries) for one in seen.settings]
    if seen.trial is not None:
        told.append(f"the trial {seen.trial.id} is paused, and its stamp is off the answers")
    told.append("nothing is sent to it, judged or proposed until it is attached")
    return told


def _line(one: ObservedSetting, expiries: Expiries) -> str:
    what = f"{place(one.knob, one.scope)} stays {_present(one).words()}"
    by = "" if one.policy_id is None else f" ({one.policy_id})"
    if one.law is not None:
        by += "; the law goes on running in the engine"
    if one.expires_in_s is not None:
        ends = f"; it expires in {one.expires_in_s:.0f} s, as before"
        by += "; it was to expire, and is made to stay" if expiries == "keep" else ends
    return what + by
