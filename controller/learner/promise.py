"""Is it worth trying? What an action may gain over the one in force, and how likely that is.

A trial costs minutes to hours of an engine's time, and only a few a day are allowed. So an action
is masked unless it has a fair chance of being better by a margin worth the trouble. With features
x, posterior N(μ, A⁻¹) of what the plant model misses (``ridge``) and its predictions e::

    δ = x_a − x_c          gain ~ N(e_a − e_c + δ·μ, δ·A⁻¹·δᵀ)          P(gain > margin) ≥ least

Both actions are of one context, so whatever the load does to the level of reward drops out. The
mask comes before the probabilities, so those of a choice among what is left stay exact; and as the
posterior widens with time, what was judged worthless comes up again by itself.

>>> from controller.learner.linear_thompson import LinearThompson
>>> from controller.learner.port import Action, Arm
>>> from policies.settings import Setting
>>> caps = [Arm.on((4, 8), "cap", Setting(value=cap)) for cap in (4, 8)]
>>> menu = Menu(actions=tuple(map(Action.of, caps)), mask=(True, True), baseline=0, current=0)
>>> sums = LinearThompson().sums
>>> gain = gains(sums, Context(), menu, at_us=0)[1]
>>> gain.mean, round(gain.sd, 2), round(gain.chance(0.02), 2)
(0.0, 0.1, 0.42)
>>> for _ in range(30):
...     sums = sums.taught(
...         Context(), menu.actions[1], 0.5, at_us=0, decided_us=0, weight=1.0
...     ).taught(Context(), menu.actions[0], 0.5, at_us=0, decided_us=0, weight=1.0)
>>> print(*promising(menu, sums, Context(), at_us=0, margin=0.02, least=0.25).why.values())
21% likely to gain 0.02 over what is in force; 25% is asked for

Why not leave it to the sampling: its uniform share alone would begin a trial every few decisions,
of something known to be worse. Why not the expected gain: of what is little known it is nothing,
and it would stay little known.

Reference: the probability of improvement with a margin, H. Kushner, "A new method of locating the
maximum point of an arbitrary multipeak curve in the presence of noise" (1964).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from scipy.special import ndtr

from controller.learner.features import joint
from controller.learner.masking import narrowed
from controller.learner.port import Context, Menu
from controller.learner.ridge import Ridge, aligned

SMALL = 1e-12


class Gain(Struct, frozen=True, kw_only=True):
    """What an action is thought to earn more than the current one, and its reward itself."""

    mean: float
    sd: float
    reward: float
    reward_sd: float

    def chance(self, margin: float) -> float:
        """Of a gain of more than ``margin``."""
        return float(ndtr((self.mean - margin) / max(self.sd, SMALL)))

    def least(self, deviations: float) -> float:
        """The least utility it may have, within so many deviations; 0 to 1."""
        return min(1.0, max(0.0, self.reward - deviations * self.reward_sd))

    def most(self, deviations: float) -> float:
        """The most utility it may have, within so many deviations; 0 to 1."""
        return min(1.0, max(0.0, self.reward + deviations * self.reward_sd))


def gains(sums: Ridge, context: Context, menu: Menu, *, at_us: int) -> tuple[Gain, ...]:
    """Of every action of the menu, masked or not."""
    names, found = joint(context, menu.actions)
    known = sums.posterior(names, at_us=at_us)
    x = aligned(found, names, known.names)
    expected = np.array([action.expected for action in menu.actions])
    rewards = expected + x @ known.mean
    apart = known.spread(x - x[menu.current])
    level = known.spread(x)
    return tuple(
        Gain(
            mean=float(rewards[at] - rewards[menu.current]),
            sd=math.sqrt(float(apart[:, at] @ apart[:, at])),
            reward=float(rewards[at]),
            reward_sd=math.sqrt(float(level[:, at] @ level[:, at])),
        )
        for at in range(len(menu.actions))
    )


def promising(
    menu: Menu, sums: Ridge, context: Context, *, at_us: int, margin: float, least: float
) -> Menu:
    """The menu without what is not worth trying; the baseline and the current one stay."""
    refusals = {}
    for action, gain in zip(menu.actions, gains(sums, context, menu, at_us=at_us), strict=True):
        chance = gain.chance(margin)
        if chance < least:
            refusals[action.id] = (
                f"{chance:.0%} likely to gain {margin:g} over what is in force;"
                f" {least:.0%} is asked for"
            )
    return narrowed(menu, refusals)
