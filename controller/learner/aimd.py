"""Additive increase, multiplicative decrease, on ladder positions.

    reward ≥ target:  position ← position + rise        else:  position ← position · fall

What TCP does with its window, and many servers with their concurrency limit. It moves only on the
outcome of what it wanted itself, and wants the allowed setpoint nearest to its position.

>>> aimd = Aimd(place="cap", target=0.9, wanted=4.0)
>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> at_four = Action.of(Arm.on((1, 2, 4, 8, 16, 32), "cap", Setting(value=16)))
>>> aimd.learn_one(Context(), at_four, 0.95, at_us=0, decided_us=0).wanted
5.0
>>> aimd.learn_one(Context(), at_four, 0.2, at_us=0, decided_us=0).wanted
2.0

Why it is only a comparator: it has to do harm to find the limit, again and again, and knows one
knob and one direction.

Reference: D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion
avoidance in computer networks" (1989).
"""

from __future__ import annotations

from typing import Self

from controller.learner.choosing import nearest, position, surely
from controller.learner.memoryless import Memoryless
from controller.learner.port import Action, Choice, Context, Menu, check_outcome


class Aimd(Memoryless, frozen=True, kw_only=True, tag=True):
    """``wanted``: its position on the ladder of ``place``, from 0 to the top."""

    place: str = "active_cap"
    target: float = 0.9
    rise: float = 1.0
    fall: float = 0.5
    wanted: float = 0.0

    @property
    def model(self) -> str:
        """Name and version."""
        return "aimd:1"

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """The allowed setpoint nearest to its position. Pure."""
        index = nearest(menu, self.place, self.wanted)
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
        """Move from the position that the outcome is of; other places teach it nothing."""
        check_outcome(reward, weight, at_us=at_us, decided_us=decided_us)
        at = position(action, self.place)
        if at is None:
            return self
        moved = at + self.rise if reward >= self.target else at * self.fall
        top = action.arms[0].size - 1
        return type(self)(
            place=self.place,
            target=self.target,
            rise=self.rise,
            fall=self.fall,
            wanted=min(float(top), moved),
        )
