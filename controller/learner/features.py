"""What a bandit sees of an action in a context: ordinal, so that neighbours on a ladder share.

A ladder position p in [0, 1] is thermometer-coded on m knots, ``t_j = clip(p·m − j, 0, 1)``. With
independent weights of equal prior variance the value along the ladder is a random walk: what is
learned of 16 says much about 32, less about 64, and nothing forces it to be a straight line. A law
is the mean of the positions it moves among, and one feature of its own for what moving is worth.

Context enters twice: alone (it explains reward that no action earned) and times each place's
position (whether more is better may depend on the load). Figures of any size come in as
``sign(x)·log(1 + |x|)/8``, at most 4: rates and token counts differ by orders of magnitude.

>>> [round(x, 2) for _, x in thermometer("cap", 0.5, 4)]
[1.0, 1.0, 0.0, 0.0]
>>> round(squashed(1000.0), 3), squashed(1e300)
(0.864, 4.0)

Why not one indicator an arm: it learns every arm from nothing. Why not one slope: the best cap is
in the middle. Why not a Gaussian process: its matrix grows with what was seen.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from controller.learner.port import Action, Arm, Context

Array = NDArray[np.float64]

BIAS: Final = "1"
MAX_KNOTS: Final = 4
MAX_SIZE: Final = 4.0
LOG_UNIT: Final = 8.0
REMEMBERED: Final = 512

Features = tuple[tuple[str, float], ...]


class Layout(Struct, frozen=True):
    """Rows of features of some actions, but for the context's figures.

    ``names``: bias, arms, context, context × place. ``fixed``: bias and arms, one row an action.
    ``position``: mean position in 0..1 of each place, one row an action.
    """

    names: tuple[str, ...]
    fixed: Array
    position: Array

    def rows(self, context: Array) -> Array:
        """All features, one row an action, in the order of ``names``."""
        count, alone, size = len(self.fixed), self.fixed.shape[1], len(context)
        if not size:
            return self.fixed
        found = np.empty((count, len(self.names)))
        found[:, :alone] = self.fixed
        found[:, alone : alone + size] = context
        found[:, alone + size :] = (self.position[:, :, None] * context).reshape(count, -1)
        return found


def squashed(x: float) -> float:
    """A finite figure on a common scale, -4 to 4."""
    return math.copysign(min(MAX_SIZE, math.log1p(abs(x)) / LOG_UNIT), x)


def thermometer(name: str, position: float, knots: int) -> Features:
    """``knots`` features that fill one after the other as the position goes from 0 to 1."""
    return tuple(
        (f"{name}:{knot}/{knots}", min(1.0, max(0.0, position * knots - knot)))
        for knot in range(knots)
    )


def joint(context: Context, actions: tuple[Action, ...]) -> tuple[tuple[str, ...], Array]:
    """Names of all features, and one row of them an action."""
    found = layout(actions, tuple([name for name, _ in context.features]))
    return found.names, found.rows(np.array([squashed(x) for _, x in context.features]))


@lru_cache(maxsize=REMEMBERED)
def layout(actions: tuple[Action, ...], context: tuple[str, ...]) -> Layout:
    """Lay out the features of actions, as much of it as does not change with every decision."""
    arms = [{BIAS: 1.0} | dict(of_action(action)) for action in actions]
    fixed = tuple(dict.fromkeys(name for features in arms for name in features))
    places = tuple(dict.fromkeys(arm.place for action in actions for arm in action.arms))
    moved = [{arm.place: _position(arm) for arm in action.arms} for action in actions]
    times = tuple(f"{name}*{place}" for place in places for name in context)
    return Layout(
        names=(*fixed, *context, *times),
        fixed=np.array([[features.get(name, 0.0) for name in fixed] for features in arms]),
        position=np.array([[at.get(place, 0.0) for place in places] for at in moved]),
    )


@lru_cache(maxsize=REMEMBERED)
def foreseen(actions: tuple[Action, ...]) -> Array:
    """The reward that the plant model predicts of each."""
    return np.array([action.expected for action in actions])


def of_action(action: Action) -> Features:
    """The features of an action in no context, without the bias."""
    return tuple(feature for arm in action.arms for feature in _of_arm(arm))


def _of_arm(arm: Arm) -> Features:
    knots = min(arm.size - 1, MAX_KNOTS)
    if knots == 0:
        return ()
    each = [thermometer(arm.place, at / (arm.size - 1), knots) for at in arm.positions]
    mean = tuple(
        (column[0][0], sum(x for _, x in column) / len(each)) for column in zip(*each, strict=True)
    )
    return mean if arm.setting.law is None else (*mean, (f"{arm.place}:law", 1.0))


def _position(arm: Arm) -> float:
    return sum(arm.positions) / (len(arm.positions) * max(1, arm.size - 1))
