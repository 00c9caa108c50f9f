"""Random search: each action once, in random order, then the best seen.

Explores ``budget`` outcomes, drawn evenly among allowed actions without one (among all once each
has one); then stays with the highest mean. Means fade by the half-life, so it may change its mind
when it is told to explore again, never by itself.

Without structure, and hard to beat where structure misleads: the yardstick at equal budgets.

>>> from controller.learner.port import Arm
>>> from policies.settings import Setting
>>> two = tuple(Action.of(Arm.on((4, 8), "cap", Setting(value=cap))) for cap in (4, 8))
>>> menu = Menu(actions=two, mask=(True, True), baseline=0, current=0)
>>> search = RandomSearch(budget=2)
>>> search.choose(Context(), menu, seed=0, at_us=0).propensities
(0.5, 0.5)
>>> search = search.learn_one(Context(), two[1], 0.9, at_us=0, decided_us=0)
>>> search.choose(Context(), menu, seed=0, at_us=0).propensities
(1.0, 0.0)

Reference: J. Bergstra, Y. Bengio, "Random search for hyper-parameter optimization" (JMLR 13, 2012).
"""

from __future__ import annotations

from typing import Final, Self

from msgspec import Struct
from numpy.random import PCG64, Generator

from controller.learner.choosing import drawn, surely
from controller.learner.mixing import even
from controller.learner.port import Action, Choice, Context, Menu, check_outcome
from policies.limits import MICROS

BUDGET: Final = 20
MAX_SEEN: Final = 1024


class Seen(Struct, frozen=True, kw_only=True):
    """Sums of one action: weights, and weight times reward, as of ``at_us``."""

    action_id: str
    weight: float
    total: float
    at_us: int


class RandomSearch(Struct, frozen=True, kw_only=True, tag=True):
    """``seen``: what was tried, the longest untouched first, at most ``MAX_SEEN``."""

    budget: int = BUDGET
    memory_s: float = 86_400.0
    outcomes: int = 0
    seen: tuple[Seen, ...] = ()

    @property
    def model(self) -> str:
        """Name and version."""
        return "random_search:1"

    @property
    def half_life_s(self) -> float | None:
        """How fast it forgets."""
        return self.memory_s

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """Explore evenly while the budget lasts, then the best seen. Pure."""
        means = {one.action_id: one.total / one.weight for one in self.seen if one.weight > 0}
        ids = [action.id for action in menu.actions]
        if self.outcomes >= self.budget:
            tried = [index for index in menu.allowed if ids[index] in means]
            best = max(tried, key=lambda index: means[ids[index]], default=None)
            return surely(self, best, context, menu, seed=seed, at_us=at_us)
        untried = [index for index in menu.allowed if ids[index] not in means]
        propensities = even(untried or menu.allowed, len(ids))
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
        """Add the outcome to its action's sums."""
        check_outcome(reward, weight, at_us=at_us, decided_us=decided_us)
        old = next((one for one in self.seen if one.action_id == action.id), None)
        as_of = at_us if old is None else max(at_us, old.at_us)
        keep = 0.0 if old is None else self._fading(old.at_us, as_of)
        counted = weight * self._fading(decided_us, as_of)
        sums = Seen(
            action_id=action.id,
            weight=counted + (keep * old.weight if old else 0.0),
            total=counted * reward + (keep * old.total if old else 0.0),
            at_us=as_of,
        )
        others = [one for one in self.seen if one.action_id != action.id]
        return type(self)(
            budget=self.budget,
            memory_s=self.memory_s,
            outcomes=self.outcomes + 1,
            seen=(*others, sums)[-MAX_SEEN:],
        )

    def evidence(self, *, at_us: int) -> float:
        """The weight of the outcomes not forgotten."""
        return sum(one.weight * self._fading(one.at_us, at_us) for one in self.seen)

    def _fading(self, since_us: int, until_us: int) -> float:
        return float(2.0 ** -(max(0, until_us - since_us) / MICROS / self.memory_s))
