"""From what an algorithm wants to a ``Choice`` that can be made again; positions on a ladder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from numpy.random import Generator

from controller.learner.mixing import certain, pick
from controller.learner.port import Action, Choice, Context, Menu, state_digest


class Named(Protocol):
    """An algorithm as far as a choice names it."""

    @property
    def model(self) -> str:
        """Name and version."""


def drawn(
    learner: Named,
    propensities: tuple[float, ...],
    rng: Generator,
    context: Context,
    menu: Menu,
    *,
    seed: int,
    at_us: int,
) -> Choice:
    """An action drawn from exactly these. ``rng``: the seed's, wherever it stands by now."""
    index = pick(propensities, rng.random())
    return _choice(learner, index, propensities, context, menu, seed, at_us)


def surely(
    learner: Named, index: int | None, context: Context, menu: Menu, *, seed: int, at_us: int
) -> Choice:
    """The choice of one action, with propensity 1; the baseline where there is none."""
    chosen = menu.baseline if index is None else index
    propensities = certain(chosen, len(menu.actions))
    return _choice(learner, chosen, propensities, context, menu, seed, at_us)


def state_of(learner: Named) -> str:
    """The digest of an algorithm, which is a record."""
    if not isinstance(learner, Struct):
        raise TypeError(f"{learner.model} is not a record")
    return state_digest(learner)


def nearest(menu: Menu, place: str, wanted: float) -> int | None:
    """The allowed setpoint of a place whose position is nearest; of two, the lower.

    ``wanted`` in ladder positions. None where the menu has no setpoint of that place alone.
    """
    return _best(menu, place, lambda at: (abs(at - wanted), at))


def at_most(menu: Menu, place: str, wanted: float) -> int | None:
    """The allowed setpoint of a place that is highest within ``wanted``; the lowest if none is."""
    return _best(menu, place, lambda at: (at > wanted, -at if at <= wanted else at))


def position(action: Action, place: str) -> int | None:
    """The ladder position of a setpoint of this place alone; None for laws and vectors."""
    if len(action.arms) != 1 or action.arms[0].place != place:
        return None
    arm = action.arms[0]
    return None if arm.setting.law is not None else arm.positions[0]


def _choice(
    learner: Named,
    index: int,
    propensities: tuple[float, ...],
    context: Context,
    menu: Menu,
    seed: int,
    at_us: int,
) -> Choice:
    return Choice(
        index=index,
        propensities=propensities,
        context=context,
        menu=menu,
        model=learner.model,
        state=state_of(learner),
        seed=seed,
        at_us=at_us,
    )


def _best(menu: Menu, place: str, key: Callable[[int], tuple[float, int]]) -> int | None:
    found = [
        (key(at), index)
        for index in menu.allowed
        if (at := position(menu.actions[index], place)) is not None
    ]
    return min(found)[1] if found else None
