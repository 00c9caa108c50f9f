"""Which actions a learner may choose at all: guardrails, then at most one ladder step outwards.

An action is masked when a guardrail denies one of its arms as a proposal of the learner, when the
caller refuses it (the wall of memory, the safety budget), or when a value lies more than one ladder
step beyond the values that were in force on its place. The values of a law count as tried, for the
engine has run at each of them. On a place where nothing was in force every step is the first.
The baseline and what is in force now are always allowed: going back
and staying are the two moves that must never need permission.

The mask comes first and the probabilities after it, so masking never spoils a propensity.

>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> ladder = (4, 8, 16, 32)
>>> caps = tuple(Action.of(Arm.on(ladder, "cap", Setting(value=cap))) for cap in ladder)
>>> menu_of(caps, baseline=caps[0].id, current=caps[0].id, tried={"cap": {4}}).mask
(True, True, False, False)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.learner.port import Action, Menu
from policies.guarding import Around, Case
from policies.guardrails import refused
from policies.limits import Limits
from policies.policy import Origin
from policies.proposal import Proposal
from policies.settings import Setting, split
from policies.steps import steps_beyond, tried_values
from signals.errors import Rejected

STEPS_BEYOND: Final = 1


def menu_of(
    actions: tuple[Action, ...],
    *,
    baseline: str,
    current: str,
    tried: Mapping[str, Collection[int]],
    refusals: Mapping[str, str] | None = None,
) -> Menu:
    """The menu of a decision. ``baseline``, ``current``: ids. ``tried``: values by place.

    ``refusals``: action id -> why it may not be, in words. What the baseline and the current action
    set counts as tried. Raises ``Rejected`` when either is not among the actions.
    """
    always = {baseline: index_of(actions, baseline), current: index_of(actions, current)}
    stood = {place: set(values) for place, values in tried.items()}
    for index in always.values():
        for arm in actions[index].arms:
            stood.setdefault(arm.place, set()).update(arm.values)
    why = {}
    for action in actions:
        words = (refusals or {}).get(action.id) or beyond(action, stood)
        if words and action.id not in always:
            why[action.id] = words
    return Menu(
        actions=actions,
        mask=tuple(action.id not in why for action in actions),
        baseline=always[baseline],
        current=always[current],
        why=why,
    )


def narrowed(menu: Menu, refusals: Mapping[str, str]) -> Menu:
    """The menu with more actions masked; the baseline and the current one stay."""
    always = {menu.baseline, menu.current}
    new = {
        action.id: refusals[action.id]
        for index, action in enumerate(menu.actions)
        if action.id in refusals and menu.mask[index] and index not in always
    }
    return Menu(
        actions=menu.actions,
        mask=tuple(
            may and action.id not in new
            for action, may in zip(menu.actions, menu.mask, strict=True)
        ),
        baseline=menu.baseline,
        current=menu.current,
        why=menu.why | new,
    )


def beyond(action: Action, tried: Mapping[str, Collection[int]]) -> str:
    """ "" or, in words, which arm goes too far from what was tried."""
    for arm in action.arms:
        stood = tried.get(arm.place, ())
        steps = max(steps_beyond(value, stood, arm.ladder) for value in arm.values)
        if steps > STEPS_BEYOND:
            return (
                f"{arm.place}={arm.setting.words()}: {steps} ladder values beyond what was tried;"
                f" allowed {STEPS_BEYOND}"
            )
    return ""


def tried_by_place(around: Around, actions: Iterable[Action]) -> dict[str, set[int]]:
    """The values that policies have put into the engine, for each place of the actions."""
    places = {arm.place for action in actions for arm in action.arms}
    return {place: tried_values(around.policies, *split(place)) for place in sorted(places)}


def guardrail_refusals(
    actions: Iterable[Action],
    *,
    target: str,
    before: Mapping[str, Setting],
    origin: Origin,
    around: Around,
    limits: Mapping[str, Limits],
    now_us: int,
) -> dict[str, str]:
    """Action id -> the guardrail that denies one of its arms. ``before``, ``limits``: by place.

    An arm that leaves its place as it is asks nothing of the guardrails.
    """
    found = {}
    for action in actions:
        for arm in action.arms:
            if arm.setting == before[arm.place]:
                continue
            knob, scope = split(arm.place)
            proposal = Proposal(
                target=target,
                knob=knob,
                scope=scope,
                setting=arm.setting,
                before=before[arm.place],
                origin=origin,
                reason="",
            )
            case = Case(proposal=proposal, around=around, limits=limits[arm.place], now_us=now_us)
            denied = refused(case)
            if denied is not None:
                found[action.id] = f"{denied.guardrail}: {denied.words}"
                break
    return found


def index_of(actions: tuple[Action, ...], action_id: str) -> int:
    """Where an action is. Raises ``Rejected`` when it is not there."""
    for index, action in enumerate(actions):
        if action.id == action_id:
            return index
    raise Rejected("not among the actions", field="action", value=action_id)
