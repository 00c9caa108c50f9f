"""How far a change goes: in ladder values, in shares of the range, and which way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from policies.knobs import KnobSpec
from policies.policy import Policy
from policies.settings import Setting

Direction = Literal["up", "down", "both", "none"]


def values_of(setting: Setting) -> tuple[int, ...]:
    """Every number this setting can put the knob to; none when it inherits."""
    if setting.law is not None:
        return setting.law.values()
    return () if setting.value is None else (setting.value,)


def direction(before: Setting, after: Setting) -> Direction:
    """Which way the knob can go by this change; ``none`` where that is unknown or nowhere.

    >>> direction(Setting(value=8), Setting(value=16))
    'up'
    """
    old, new = values_of(before), values_of(after)
    if not old or not new:
        return "none"
    up, down = max(new) > max(old), min(new) < min(old)
    if up and down:
        return "both"
    return "up" if up else "down" if down else "none"


def ladder_distance(a: int, b: int, ladder: Sequence[int]) -> int:
    """Ladder values passed on the way from ``a`` to ``b``, the last one included.

    >>> ladder_distance(8, 64, (2, 4, 8, 16, 32, 64)), ladder_distance(8, 4, (2, 4, 8, 16))
    (3, 1)
    """
    if b >= a:
        return sum(a < value <= b for value in ladder)
    return sum(b <= value < a for value in ladder)


def step(before: Setting, after: Setting, ladder: Sequence[int]) -> int:
    """The longest way, in ladder values, from what was there to a value that may come."""
    old = values_of(before)
    ways = (min((ladder_distance(a, b, ladder) for a in old), default=0) for b in values_of(after))
    return max(ways, default=0)


def share_of_range(before: Setting, after: Setting, spec: KnobSpec) -> float:
    """The same as a share of the knob's range, 0 to 1."""
    old, span = values_of(before), max(1, spec.capacity - spec.low)
    ways = (min((abs(b - a) for a in old), default=0) for b in values_of(after))
    return max(ways, default=0) / span


def steps_beyond(value: int, tried: Collection[int], ladder: Sequence[int]) -> int:
    """Ladder values from the nearest tried one outwards to ``value``; 0 between tried ones."""
    if not tried or min(tried) <= value <= max(tried):
        return 0
    return ladder_distance(max(tried) if value > max(tried) else min(tried), value, ladder)


def tried_values(policies: Iterable[Policy], knob: str, scope: str) -> set[int]:
    """Every value that policies of this place have put into the engine."""
    applied = (
        policy.setting
        for policy in policies
        if (policy.knob, policy.scope) == (knob, scope) and policy.applied_us is not None
    )
    return {value for setting in applied for value in values_of(setting)}
