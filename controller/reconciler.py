"""Desired against observed, level-triggered: which PATCH would make them equal, if any.

Applied means read back (invariant 7): nothing here believes a PATCH that the engine's own answer
does not show. A restarted engine differs from the wish like any other and is simply brought back.
"""

from __future__ import annotations

from controller.desired import Desired
from policies.knobs import KnobSpec
from policies.runtime_config import (
    Fallback,
    ObservedSetting,
    Patch,
    RuntimeConfig,
    SettingChange,
)
from policies.settings import Effective, Setting

MIN_EXPIRY_S = 0.1


def plan_patch(
    wish: Desired, seen: RuntimeConfig, *, epoch: int, change_id: str, now_us: int
) -> Patch | None:
    """The PATCH that turns ``seen`` into ``wish``, or None when nothing differs.

    Under ``wish.hold`` only the hold itself and the trial's end are sent: settings stay. When the
    trial's stamp changes, a setting that expires is sent again with its new end: of two candidate
    blocks in a row the second must not fall back when the first one's time is over.
    """
    changes: list[SettingChange] = []
    if not wish.hold:
        for spec in seen.knobs:
            change = _change(spec, wish, seen, now_us)
            if change is not None:
                changes.append(change)
    if not changes and wish.trial == seen.trial and wish.hold == seen.hold:
        return None
    return Patch(
        change_id=change_id,
        epoch=epoch,
        expected=seen.expected,
        settings=tuple(changes),
        trial=wish.trial,
        hold=None if wish.hold == seen.hold else wish.hold,
    )


def differs(wish: Desired, seen: RuntimeConfig) -> tuple[str, ...]:
    """The knobs (and ``trial``, ``hold``) in which the engine is not as wished."""
    found = [] if wish.hold else [s.name for s in seen.knobs if _differs(s, wish, seen)]
    if wish.trial != seen.trial:
        found.append("trial")
    if wish.hold != seen.hold:
        found.append("hold")
    return tuple(found)


def has(seen: RuntimeConfig, knob: str, setting: Setting, policy_id: str | None) -> bool:
    """Whether the engine shows exactly this setting, made by this policy."""
    now = seen.setting(knob)
    return now is not None and now.policy_id == policy_id and _same(setting, now)


def _change(
    spec: KnobSpec, wish: Desired, seen: RuntimeConfig, now_us: int
) -> SettingChange | None:
    want = wish.settings.get(spec.name)
    ends = want is not None and want.expires_us is not None and spec.name not in wish.left_alone
    if not _differs(spec, wish, seen) and not (ends and wish.trial != seen.trial):
        return None
    if want is None:
        return SettingChange(knob=spec.name)
    expires_in_s = None
    if want.expires_us is not None:
        expires_in_s = max(MIN_EXPIRY_S, (want.expires_us - now_us) / 1e6)
    return SettingChange(
        knob=spec.name,
        value=want.setting.value,
        law=want.setting.law,
        shrink=want.setting.shrink,
        policy_id=want.policy_id,
        fallback=_fallback(want) if expires_in_s is not None else None,
        expires_in_s=expires_in_s,
    )


def _differs(spec: KnobSpec, wish: Desired, seen: RuntimeConfig) -> bool:
    if spec.name in wish.left_alone or spec.capability in ("unsupported", "restart"):
        return False
    now = seen.setting(spec.name)
    if now is None:
        return False
    want = wish.settings.get(spec.name)
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
    if want.below is None:
        return Fallback()
    below = want.below
    return Fallback(value=below.setting.value, law=below.setting.law, policy_id=below.policy_id)
