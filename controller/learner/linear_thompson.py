"""Linear Thompson sampling with a fading memory: try each action as often as it might be best.

The reward of an action is linear in its features, with posterior N(μ, A⁻¹) (``ridge``). Draw N
weight vectors, let each name its best allowed action; the frequency with which an action is named
is the probability that it is best, as far as is known. Mixed with 5 % uniform, these frequencies
are the propensities, and the action is drawn from them::

    s = X·μ ± (L⁻¹·Xᵀ)ᵀ·z,  z ~ N(0, I) from the seed;   f_a = share of draws in which a is best
    p = .95·f + .05/m;   a ~ p

Draws come in pairs, one on each side of the mean: as likely as draws of their own, half the cost,
and the shares of a pair err in opposite directions.

The propensity is exact though f is only N draws: it is what the choice was drawn with. Ties are
shared. Forgetting widens A⁻¹, so what has not been tried for long is tried again by itself.

>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> caps = [Arm.on((4, 8, 16), "active_cap", Setting(value=cap)) for cap in (4, 8, 16)]
>>> menu = Menu(actions=tuple(map(Action.of, caps)), mask=(True,) * 3, baseline=0, current=0)
>>> learner = LinearThompson()
>>> for _ in range(20):
...     for action, reward in zip(menu.actions, (0.2, 0.9, 0.3)):
...         learner = learner.learn_one(Context(), action, reward, at_us=0, decided_us=0)
>>> choice = learner.choose(Context(), menu, seed=1, at_us=0)
>>> choice.action.words(), round(choice.propensity, 3)
('active_cap=8', 0.967)

Why not the usual one draw, then act: its propensity is an integral over a polytope, which would
have to be estimated. Why not UCB alone: it is deterministic, and without chance there is nothing to
estimate other policies from.

Reference: S. Agrawal, N. Goyal, "Thompson sampling for contextual bandits with linear payoffs"
(ICML 2013).
"""

from __future__ import annotations

from typing import Final, Self

import numpy as np
from msgspec import Struct
from numpy.random import PCG64, Generator

from controller.learner.choosing import drawn
from controller.learner.mixing import best_shares, mixed
from controller.learner.port import Action, Choice, Context, Menu
from controller.learner.ridge import Ridge
from controller.learner.settings import LearnerSettings

DEFAULTS: Final = LearnerSettings()


class LinearThompson(Struct, frozen=True, kw_only=True, tag=True):
    """What is known (``sums``), how many draws a choice takes, and the share mixed in."""

    sums: Ridge = Ridge.of(DEFAULTS)
    draws: int = DEFAULTS.draws
    uniform: float = DEFAULTS.uniform_share

    @property
    def model(self) -> str:
        """Name and version."""
        return "linear_thompson:2"

    @property
    def half_life_s(self) -> float | None:
        """How fast it forgets."""
        return self.sums.half_life_s

    @classmethod
    def of(cls, settings: LearnerSettings) -> Self:
        """Nothing learned yet."""
        return cls(sums=Ridge.of(settings), draws=settings.draws, uniform=settings.uniform_share)

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """Draw from the mixed posterior frequencies. Pure."""
        rng = Generator(PCG64(seed))
        means, spread = self.sums.predicted(context, menu, at_us=at_us)
        off = spread.T @ rng.standard_normal((len(spread), max(1, self.draws // 2)))
        shares = best_shares(np.concatenate((off, -off), axis=1) + means[:, None])
        propensities = mixed(shares, menu.mask, uniform=self.uniform)
        return drawn(self, propensities, rng, context, menu, seed=seed, at_us=at_us)

    def learn_one(
        self,
        context: Context,
        action: Action,
        reward: float,
        *,
        at_us: int,
        decided_us: int,
        weight: float = 1.0,
    ) -> Self:
        """Add what the plant model did not expect of this outcome."""
        sums = self.sums.taught(
            context, action, reward, at_us=at_us, decided_us=decided_us, weight=weight
        )
        return type(self)(sums=sums, draws=self.draws, uniform=self.uniform)

    def evidence(self, *, at_us: int) -> float:
        """The weight of the outcomes not forgotten."""
        return self.sums.weight_at(at_us=at_us)
