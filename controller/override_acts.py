"""What a person may set over the loop: pin, force, freeze, and release of any of them.

Each is checked against the engine's own spec before it is said to be set, is one transaction with
its audit entry, and ends by itself. Of one kind there is one on a place: a new one takes the
place of the old, which ends in the same transaction.
"""

from __future__ import annotations

import os

from msgspec import Struct

from controller.control import ControlOperations
from controller.following import MANY, said, void_units
from controller.spec_checks import check_setting
from controller.state import Declared
from controller.store.port import Principal, Tx
from policies.ids import new_id
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.overrides import PREFIX, Override, OverrideKind
from policies.settings import Setting
from signals.errors import Conflict, Rejected, Unavailable
from signals.events import MICROS


class OverrideRequest(Struct, frozen=True, kw_only=True):
    """What a person asks for. ``knob`` None (freeze only): every knob of the scope."""

    target: str
    kind: OverrideKind
    knob: str | None = None
    scope: str = TARGET_SCOPE
    setting: Setting | None = None
    reason: str
    expires_in_s: float


class OverrideOperations(ControlOperations):
    """Overrides, beside the acts of ``ControlOperations``."""

    def override(self, wanted: OverrideRequest, *, by: Principal) -> Override:
        """Set it. Raises ``Rejected`` with what is allowed, ``Conflict`` where it can't be now."""
        declared = self.target(wanted.target)
        self._check(declared, wanted)
        now_us = self._clock()
        made = Override(
            id=new_id(PREFIX[wanted.kind], now_us, os.urandom(8)),
            target=wanted.target,
            kind=wanted.kind,
            knob=wanted.knob,
            scope=wanted.scope,
            setting=wanted.setting,
            reason=said(wanted.reason),
            by=by.id,
            created_us=now_us,
            expires_us=now_us + round(wanted.expires_in_s * MICROS),
        )
        with self._store.write() as tx:
            _check_control(tx, made)
            active = tx.overrides(target=made.target, state="active", limit=MANY)
            replaced = [one for one in active if _replaces(made, one)]
            _check_count(len(active) - len(replaced), declared)
            for one in replaced:
                cause = f"replaced by {made.id}"
                tx.end_override(one, cause=cause, actor=by.id, at_us=now_us)
            tx.add_override(made)
            if made.kind != "freeze":
                void_units(tx, made.target, f"{made.words()} was set", now_us=now_us)
        self._wake()
        return made

    def end_override(self, override_id: str, reason: str, *, by: Principal) -> Override:
        """Release it before its time. Raises ``NotFound``, ``Conflict`` when it has ended."""
        now_us = self._clock()
        with self._store.write() as tx:
            found = tx.override(override_id)
            cause = f"released by {by.name}: {said(reason)}"
            ended = tx.end_override(found, cause=cause, actor=by.id, at_us=now_us)
            if ended.kind != "freeze":
                void_units(tx, ended.target, f"{ended.words()} was released", now_us=now_us)
        self._wake()
        return ended

    def _check(self, declared: Declared, wanted: OverrideRequest) -> None:
        """Raise ``Rejected`` for what this engine, or this kind, does not take."""
        most_s = declared.control.max_override_s
        if not 1 <= wanted.expires_in_s <= most_s:
            raise Rejected(
                "an override may not last that long",
                field="expires_in_s",
                value=wanted.expires_in_s,
                allowed=f"1..{most_s} s (control.max_override_s)",
            )
        scopes = (TARGET_SCOPE, *sorted(declared.target.intents))
        if wanted.scope not in scopes:
            raise Rejected(
                f"{declared.name} has no intent {wanted.scope!r}",
                field="scope",
                value=wanted.scope,
                allowed=scopes,
            )
        if wanted.kind == "freeze":
            if wanted.setting is not None:
                raise Rejected("a freeze sets nothing", field="setting", allowed="nothing")
            if wanted.knob is not None:
                self._spec(declared.name, wanted.knob)
            return
        if wanted.knob is None or wanted.setting is None:
            missing = "knob" if wanted.knob is None else "setting"
            raise Rejected(f"a {wanted.kind} names a knob and its setting", field=missing)
        spec = self._spec(declared.name, wanted.knob)
        spec.check_scope(wanted.scope, field="scope")
        check_setting(spec, wanted.setting)

    def _spec(self, target: str, knob: str) -> KnobSpec:
        """The knob as the engine reports it, or reported it when it was last seen."""
        self.target(target)
        seen = self._fleet.glimpse(target, max_age_s=60.0)
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


def _check_control(tx: Tx, made: Override) -> None:
    """A pin falls with a kill, and a detached engine is not ours: saying "set" would be a lie."""
    control = tx.control(made.target)
    if control.detached:
        raise Conflict(f"{made.target} is detached; attach it first", field="target")
    if control.killed and made.kind == "pin":
        raise Conflict(
            f"{made.target} is killed, and a kill takes pins away",
            field="kind",
            value=made.kind,
            allowed="force, or release the target first",
        )


def _check_count(others: int, declared: Declared) -> None:
    most = declared.control.max_overrides
    if others >= most:
        raise Conflict(
            f"{declared.name} has {others} overrides; release some, or change its baseline",
            field="target",
            value=declared.name,
            allowed=f"at most {most} (control.max_overrides)",
        )


def _replaces(made: Override, other: Override) -> bool:
    """The same kind on the same place; a person's pin also replaces a stranger's change."""
    return (made.kind, made.knob, made.scope) == (other.kind, other.knob, other.scope)
