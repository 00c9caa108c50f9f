"""What a rollback takes back and what it has to pin: one pure function, also of the dry run.

::

    layers now                        after a rollback to last stable     … to a time t
    ───────────                       ───────────────────────────────     ─────────────────────────
    force                             stands                              stands
    pins, strangers' changes          end                                 end
    trial's arm, emergencies          are reverted                        are reverted
    kept policies                     stand                               those applied after t are
    baseline                          stands                              reverted; the rest stands
                                                                          + pins where that is still
                                                                          not what was in force at t

The way back is to take layers away, never to write old values; only where that does not lead to
what was in force then (a baseline that changed since, a policy that is no more) it is pinned, with
an end.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from controller.desired import Desired, desired
from controller.store.port import Control
from controller.wishes import Lower
from policies.in_force import InForce, Segment
from policies.lifecycle import LAYERED, State
from policies.overrides import Override
from policies.policy import Policy
from policies.settings import OnKill, Setting, split

PASSING: tuple[State, ...] = ("applying", "on_trial", "paused", "in_force")
"""Layers that are not kept: a rollback takes every one of them away."""


class RollbackPlan(Struct, frozen=True, kw_only=True):
    """``reverted`` and ``ended`` are as they are now. ``pinned``: place -> the setting it had then.

    ``wish``: what engines should have afterwards.
    """

    reverted: tuple[Policy, ...]
    ended: tuple[Override, ...]
    standing: tuple[Override, ...]
    pinned: dict[str, Setting]
    wish: Desired


def plan_rollback(
    lower: Lower,
    control: Control,
    *,
    then: Segment | None,
    at_us: int | None,
    on_kill: OnKill,
    now_us: int,
    pins_stand: bool = False,
) -> RollbackPlan:
    """``then`` and ``at_us`` None: to last stable; else to what that known segment had.

    ``lower``: all layers of the target. ``pins_stand``: those that there are by now are the
    rollback's own.
    """
    layered = [one for one in lower.policies if one.state in LAYERED]
    reverted = tuple(one for one in layered if one.state in PASSING or _is_newer(one, at_us))
    active = [one for one in lower.overrides if one.in_force(now_us)]
    ended = tuple(one for one in active if one.kind == "pin" and not pins_stand)
    standing = tuple(one for one in active if one not in ended)
    wish = desired(
        lower.baseline,
        [one for one in layered if one not in reverted],
        None,
        control,
        standing,
        on_kill=on_kill,
        now_us=now_us,
    )
    return RollbackPlan(
        reverted=reverted,
        ended=ended,
        standing=standing,
        pinned={} if then is None else _differing(wish, then),
        wish=msgspec.structs.replace(wish, through_hold=True),
    )


def _is_newer(policy: Policy, at_us: int | None) -> bool:
    began_us = policy.created_us if policy.applied_us is None else policy.applied_us
    return at_us is not None and began_us > at_us


def _differing(wish: Desired, then: Segment) -> dict[str, Setting]:
    """What was in force then and would not be; what is forced stays as it is."""
    found = {}
    for at, was in then.settings.items():
        now = wish.settings.get(at)
        if now is not None and (now.kind == "force" or _same(now.setting, was)):
            continue
        found[at] = Setting(value=None if was.law is not None else was.value, law=was.law)
    return found


def _same(now: Setting, was: InForce) -> bool:
    if now.law is not None or was.law is not None:
        return now.law == was.law
    return now.value == was.value


def booted(plan: RollbackPlan, boots: Mapping[str, int]) -> RollbackPlan:
    """The plan without pins of boot values where nothing would be wished: that is what it boots to.

    ``boots``: knob -> boot value.
    """
    pinned = {
        at: setting
        for at, setting in plan.pinned.items()
        if at in plan.wish.settings or setting.law is not None or not _boots_to(at, setting, boots)
    }
    return msgspec.structs.replace(plan, pinned=pinned)


def _boots_to(at: str, setting: Setting, boots: Mapping[str, int]) -> bool:
    return boots.get(split(at)[0]) == setting.value
