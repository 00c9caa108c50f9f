"""Stability: what may not move now, however good it looks. Pure; it only ever masks.

- **dwell**: a place that has just changed stays a while, so that its effect can be seen;
- **hysteresis**: after a move up no move down so soon, and the other way round;
- **growth**: a limit that is not reached is not raised (its effect could not be seen, and the day
  it is reached is the worst day to find out), and nothing is raised while requests keep timing out:
  more of what is late already makes everything later;
- **one vector**: knobs that share a resource (pool, budget, cap) move together in one action, so
  no half of a change is ever in force.

>>> from controller.learner.port import Action, Arm
>>> from policies.settings import Setting
>>> caps = tuple(
...     Action.of(Arm.on((4, 8, 16), "cap", Setting(value=cap))) for cap in (4, 8, 16)
... )
>>> menu = Menu(actions=caps, mask=(True,) * 3, baseline=1, current=1)
>>> load = Load(binding={"cap": 0.05})
>>> steady(menu, load, {}, now_us=0).mask
(True, True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from controller.learner.masking import narrowed
from controller.learner.port import Action, Arm, Menu
from controller.learner.settings import LearnerSettings
from policies.limits import MICROS
from policies.steps import direction

DEFAULTS: Final = LearnerSettings()


class Load(Struct, frozen=True, kw_only=True):
    """How the engine stands. ``binding``: by place, the share of time in which it was the limit.

    ``timeout_share``: of the requests of the last minutes, those that timed out. A place that is
    not in ``binding`` is not known to be reached, so it does not grow.
    """

    binding: Mapping[str, float]
    timeout_share: float = 0.0


class Moved(Struct, frozen=True, kw_only=True):
    """The last change of a place: when, and which way."""

    at_us: int
    way: Literal["up", "down", "both", "none"]


def steady(
    menu: Menu,
    load: Load,
    moved: Mapping[str, Moved],
    *,
    now_us: int,
    settings: LearnerSettings = DEFAULTS,
    shared: Iterable[frozenset[str]] = (),
) -> Menu:
    """The menu without what would be restless. ``moved``: by place. ``shared``: places each.

    The baseline and what is in force stay allowed: going back is never restless.
    """
    current = menu.actions[menu.current]
    groups = tuple(shared)
    refusals = {}
    for action in menu.actions:
        words = (
            torn(action, groups)
            or _restless(action, current, moved, now_us, settings)
            or _grows(action, current, load, settings)
        )
        if words:
            refusals[action.id] = words
    return narrowed(menu, refusals)


def torn(action: Action, groups: Iterable[frozenset[str]]) -> str:
    """ "" or which knobs of one resource an action leaves out."""
    places = {arm.place for arm in action.arms}
    for group in groups:
        if places & group and not group <= places:
            left = ", ".join(sorted(group - places))
            return f"{action.words()} leaves out {left}, which shares its resource"
    return ""


def _restless(
    action: Action,
    current: Action,
    moved: Mapping[str, Moved],
    now_us: int,
    settings: LearnerSettings,
) -> str:
    """Dwell, and no change of direction so soon."""
    for before, arm in _changes(action, current):
        last = moved.get(arm.place)
        if last is None:
            continue
        passed_s = (now_us - last.at_us) / MICROS
        if passed_s < settings.dwell_s:
            return f"{arm.place} changed {passed_s:.0f} s ago; it stays {settings.dwell_s:g} s"
        way = direction(before.setting, arm.setting)
        if _turns(last.way, way) and passed_s < settings.reverse_s:
            return f"{arm.place} went {last.way} {passed_s:.0f} s ago; not {way} so soon"
    return ""


def _turns(last: str, way: str) -> bool:
    """Whether some value would go against the last move."""
    if "none" in (last, way):
        return False
    return "both" in (last, way) or last != way


def _grows(action: Action, current: Action, load: Load, settings: LearnerSettings) -> str:
    """Raises a limit that is not reached, or anything while requests time out."""
    for before, arm in _changes(action, current):
        if direction(before.setting, arm.setting) not in ("up", "both"):
            continue
        if load.timeout_share > settings.timeout_share:
            return f"{load.timeout_share:.1%} of requests time out: {arm.place} does not grow"
        reached = load.binding.get(arm.place, 0.0)
        if reached < settings.binding_share:
            return f"{arm.place} was the limit {reached:.0%} of the time: it does not grow"
    return ""


def _changes(action: Action, current: Action) -> list[tuple[Arm, Arm]]:
    """(before, after) of the places that both set, differently."""
    pairs = [(current.arm(arm.place), arm) for arm in action.arms]
    return [
        (before, after)
        for before, after in pairs
        if before is not None and before.setting != after.setting
    ]
