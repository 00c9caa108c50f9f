"""LinUCB with a fading memory: optimism where little is known, on the same regression.

    score_a = x_a·μ + α·√(x_aᵀ·A⁻¹·x_a)

The highest score gets all of f, ties share it, and the same 5 % uniform is mixed in, so it logs
exact propensities like everybody else. α is in posterior deviations.

>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> caps = [Arm.on((4, 8, 16), "active_cap", Setting(value=cap)) for cap in (4, 8, 16)]
>>> menu = Menu(actions=tuple(map(Action.of, caps)), mask=(True,) * 3, baseline=0, current=0)
>>> learner = LinUcb()
>>> for _ in range(20):
...     for action, reward in zip(menu.actions, (0.2, 0.9, 0.3)):
...         learner = learner.learn_one(Context(), action, reward, at_us=0, decided_us=0)
>>> choice = learner.choose(Context(), menu, seed=1, at_us=0)
>>> choice.action.words(), round(choice.propensity, 3)
('active_cap=8', 0.967)

Why not disjoint arms, one regression each: neighbours on a ladder then teach each other nothing.
Why beside Thompson: it explores without noise, which shows what the noise is worth; its
propensities are extreme, which makes its logs poor for estimating other policies.

Reference: L. Li, W. Chu, J. Langford, R. Schapire, "A contextual-bandit approach to personalized
news article recommendation" (WWW 2010).
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
ALPHA: Final = 1.0


class LinUcb(Struct, frozen=True, kw_only=True, tag=True):
    """What is known (``sums``), the width of its optimism, and the share mixed in."""

    sums: Ridge = Ridge.of(DEFAULTS)
    alpha: float = ALPHA
    uniform: float = DEFAULTS.uniform_share

    @property
    def model(self) -> str:
        """Name and version."""
        return "linucb:1"

    @property
    def half_life_s(self) -> float | None:
        """How fast it forgets."""
        return self.sums.half_life_s

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """Draw from the greedy action mixed with uniform. Pure."""
        means, spread = self.sums.predicted(context, menu, at_us=at_us)
        scores = means + self.alpha * np.sqrt((spread**2).sum(axis=0))
        propensities = mixed(best_shares(scores[:, None]), menu.mask, uniform=self.uniform)
        rng = Generator(PCG64(seed))
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
        return type(self)(sums=sums, alpha=self.alpha, uniform=self.uniform)

    def evidence(self, *, at_us: int) -> float:
        """The weight of the outcomes not forgotten."""
        return self.sums.weight_at(at_us=at_us)
