"""What comparators without sums have in common: nothing to forget, and mostly nothing to learn."""

from __future__ import annotations

from typing import Self

from msgspec import Struct

from controller.learner.port import Action, Context, check_outcome


class Memoryless(Struct, frozen=True, kw_only=True):
    """It keeps no sums: a position, or a plan made beforehand."""

    @property
    def half_life_s(self) -> float | None:
        """Nothing fades."""
        return None

    def evidence(self, *, at_us: int) -> float:
        """None."""
        del at_us
        return 0.0


class Unlearning(Memoryless, frozen=True, kw_only=True):
    """It does what it was told beforehand, whatever comes of it."""

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
        """Nothing changes its mind. Raises ``Rejected`` for what nobody could learn from."""
        del context, action
        check_outcome(reward, weight, at_us=at_us, decided_us=decided_us)
        return self
