"""Desired against observed, level-triggered: which PATCH would make them equal, if any.

Applied means read back (invariant 7): nothing here believes a PATCH that the engine's own answer
does not show. A restarted engine differs from the wish like any other and is simply brought back.

A place (``knob`` or ``knob@intent``) is compared where the engine's spec offers its scope; a wish
for one that it does not offer is left out, and ``not_offered`` says so. An intent without a setting
of its own inherits, and is not shown. What the candidate's sessions have while a trial splits them
is compared beside that; it needs no way back, for the engine takes it away with the trial.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.desired import Desired
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.runtime_config import (
    Fallback,
    ObservedSetting,
    Patch,
    RuntimeConfig,
    SettingChange,
)
from policies.settings import Effective, Setting, lasting, place

MIN_EXPIRY_S = 0.1


def plan_patch(
    wish: Desired, seen: RuntimeConfig, *, epoch: int, change_id: str, now_us: int
) -> Patch | None:
    """The PATCH that turns ``seen`` into ``wish``, or None when nothing differs.

    Under ``wish.hold`` only what is forced is sent, beside the hold itself and the trial's end:
    other settings stay. When the trial's stamp changes, the candidate is sent again with its new
    end: of two candidate blocks in a row the second must not fall back when the first one's time
    is over.
    """
    places = list(_places(wish, seen))
    found = (_change(spec, scope, wish, seen, now_us) for spec, scope in places)
    changes = tuple(change for change in found if change is not None)
    changes += tuple(_candidates(wish, seen, now_us))
    if not changes and wish.trial == seen.trial and wish.hold == seen.hold:
        return None
    return Patch(
        change_id=change_id,
        epoch=epoch,
        expected=seen.expected,
        settings=changes,
        trial=wish.trial,
        hold=None if wish.hold == seen.hold else wish.hold,
    )


def differs(wish: Desired, seen: RuntimeConfig) -> tuple[str, ...]:
    """The places (and ``trial``, ``hold``) in which the engine is not as wished."""
    places = _places(wish, seen)
    found = [place(s.name, scope) for s, scope in places if _differs(s, scope, wish, seen)]
    found += [f"{place(one.knob, one.scope)} (candidate)" for one in _candidates(wish, seen, 0)]
    if wish.trial != seen.trial:
        found.append("trial")
    if wish.hold != seen.hold:
        found.append("hold")
    return tuple(found)


def not_offered(wish: Desired, seen: RuntimeConfig) -> tuple[str, ...]:
    """Places that are wished for and that this engine has not, or not while it runs."""
    offered = {place(s.name, scope) for s in seen.knobs if _is_live(s) for scope in s.scopes}
    return tuple(sorted(at for at in wish.settings if at not in offered))


def has(
    seen: RuntimeConfig,
    knob: str,
    setting: Setting,
    policy_id: str | None,
    scope: str = TARGET_SCOPE,
) -> bool:
    """Whether the engine shows exactly this setting, made by this policy."""
    now = seen.setting(knob, scope)
    return now is not None and now.policy_id == policy_id and _same(setting, now)


def _places(wish: Desired, seen: RuntimeConfig) -> Iterator[tuple[KnobSpec, str]]:
    """What is compared: every place that the engine offers; under a hold the forced ones.

    One that restarted has nothing that a hold could keep: it gets the whole wish, and the hold.
    """
    booted = seen.version == 0 and not seen.hold
    held = wish.hold and not wish.through_hold and not booted
    for spec in seen.knobs:
        for scope in spec.scopes if _is_live(spec) else ():
            at = place(spec.name, scope)
            stays = held and at not in wish.sent()
            if at not in wish.left_alone and not stays:
                yield spec, scope


def _candidates(wish: Desired, seen: RuntimeConfig, now_us: int) -> Iterator[SettingChange]:
    """What to set, and to take away, of what the candidate's sessions have.

    With another block everything is sent again, for its new end; with another split all is new.
    """
    if wish.trial is None or wish.trial.split is None:
        return
    again = wish.trial != seen.trial
    had = {place(one.knob, one.scope): one for one in seen.candidate}
    for spec in seen.knobs:
        for scope in spec.scopes if spec.per_request and _is_live(spec) else ():
            want, now = (
                wish.candidate.get(place(spec.name, scope)),
                had.get(place(spec.name, scope)),
            )
            if want is None and now is not None:
                yield SettingChange(knob=spec.name, scope=scope, arm="candidate")
            elif want is not None and (again or now is None or not _as_wished(want, now)):
                yield SettingChange(
                    knob=spec.name,
                    scope=scope,
                    value=want.setting.value,
                    law=want.setting.law,
                    policy_id=want.policy_id,
                    expires_in_s=_left_s(want, now_us),
                    arm="candidate",
                )


def _as_wished(want: Effective, now: ObservedSetting) -> bool:
    return now.policy_id == want.policy_id and _same(want.setting, now)


def _left_s(want: Effective, now_us: int) -> float | None:
    if want.expires_us is None:
        return None
    return max(MIN_EXPIRY_S, (want.expires_us - now_us) / 1e6)


def _is_live(spec: KnobSpec) -> bool:
    return spec.capability not in ("unsupported", "restart")


def _change(
    spec: KnobSpec, scope: str, wish: Desired, seen: RuntimeConfig, now_us: int
) -> SettingChange | None:
    want = wish.settings.get(place(spec.name, scope))
    again = want is not None and want.kind == "arm" and wish.trial != seen.trial
    if not _differs(spec, scope, wish, seen) and not again:
        return None
    if want is None:
        return SettingChange(knob=spec.name, scope=scope)
    expires_in_s = _left_s(want, now_us)
    return SettingChange(
        knob=spec.name,
        scope=scope,
        value=want.setting.value,
        law=want.setting.law,
        shrink=want.setting.shrink,
        policy_id=want.policy_id,
        fallback=_fallback(want) if expires_in_s is not None else None,
        expires_in_s=expires_in_s,
    )


def _differs(spec: KnobSpec, scope: str, wish: Desired, seen: RuntimeConfig) -> bool:
    want, now = wish.settings.get(place(spec.name, scope)), seen.setting(spec.name, scope)
    if scope != TARGET_SCOPE and (want is None or now is None):
        return (want is None) != (now is None)
    if now is None:
        return False
    if want is None:
        return now.policy_id is not None or now.law is not None or now.value != spec.boot
    if now.policy_id != want.policy_id or not _same(want.setting, now):
        return True
    ends = want.expires_us is not None
    if ends != (now.expires_in_s is not None):
        return True
    return ends and now.fallback != _fallback(want)


def _same(setting: Setting, now: ObservedSetting) -> bool:
    if setting.shrink != now.shrink:
        return False
    if setting.law is not None or now.law is not None:
        return setting.law == now.law
    return setting.value == now.value


def _fallback(want: Effective) -> Fallback:
    """What the engine goes to by itself: the topmost layer below that does not expire."""
    below = lasting(want.below)
    if below is None:
        return Fallback()
    return Fallback(value=below.setting.value, law=below.setting.law, policy_id=below.policy_id)
