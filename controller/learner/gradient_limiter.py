"""A gradient limiter: shrink by how much worse it has become, grow by the root of the limit.

Netflix's Gradient2 compares a long average of latency with what is seen now. The controller's
reward is utility, so its ratio is turned round: short over long reward takes the place of long over
short latency::

    g = clip(tolerance · short/long, ½, 1)        limit ← (1 − s)·limit + s·(g·limit + √limit)

The limit is a position on the ladder, counted from 1; √limit is the room for growth, s smooths.

>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> at_three = Action.of(Arm.on((1, 2, 4, 8, 16), "cap", Setting(value=8)))
>>> calm = GradientLimiter(place="cap", long=0.8)
>>> round(calm.learn_one(Context(), at_three, 0.8, at_us=0, decided_us=0).limit, 2)
4.4
>>> round(calm.learn_one(Context(), at_three, 0.2, at_us=0, decided_us=0).limit, 2)
4.0

Why it is only a comparator: it reads every fall of utility as its own doing, also when it is the
load that has changed; and it never asks what a lower limit would have earned.

Reference: Netflix, concurrency-limits (the idea of ``Gradient2Limit``; no code is taken).
"""

from __future__ import annotations

import math
from typing import Self

from controller.learner.choosing import at_most, position, surely
from controller.learner.memoryless import Memoryless
from controller.learner.port import Action, Choice, Context, Menu, check_outcome

LEAST_REWARD = 1e-6
"""Rewards at or below nothing count as this, so that the ratio exists."""


class GradientLimiter(Memoryless, frozen=True, kw_only=True, tag=True):
    """``limit``: a ladder position counted from 1. ``long``: the slow average; 0: none yet."""

    place: str = "active_cap"
    tolerance: float = 1.5
    smoothing: float = 0.2
    slow: float = 0.05
    limit: float = 1.0
    long: float = 0.0

    @property
    def model(self) -> str:
        """Name and version."""
        return "gradient_limiter:1"

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """The highest allowed setpoint within the limit. Pure."""
        index = at_most(menu, self.place, self.limit - 1.0)
        return surely(self, index, context, menu, seed=seed, at_us=at_us)

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
        """Move the limit from where the outcome was; other places teach it nothing."""
        check_outcome(reward, weight, at_us=at_us, decided_us=decided_us)
        at = position(action, self.place)
        if at is None:
            return self
        short = max(LEAST_REWARD, reward)
        long = short if self.long <= 0 else (1 - self.slow) * self.long + self.slow * short
        gradient = min(1.0, max(0.5, self.tolerance * short / long))
        stood = at + 1.0
        grown = gradient * stood + math.sqrt(stood)
        moved = (1 - self.smoothing) * stood + self.smoothing * grown
        return type(self)(
            place=self.place,
            tolerance=self.tolerance,
            smoothing=self.smoothing,
            slow=self.slow,
            limit=min(float(action.arms[0].size), max(1.0, moved)),
            long=long,
        )
