"""Static: one action for ever, or the baseline where it may not be chosen.

The comparator that every learner must beat in hindsight: the best single setting, known beforehand.

>>> from controller.learner.port import Action, Arm
>>> from policies.settings import Setting
>>> two = tuple(Action.of(Arm.on((4, 8), "cap", Setting(value=cap))) for cap in (4, 8))
>>> menu = Menu(actions=two, mask=(True, True), baseline=0, current=0)
>>> Static(action_id=two[1].id).choose(Context(), menu, seed=0, at_us=0).action.words()
'cap=8'
"""

from __future__ import annotations

from controller.learner.choosing import surely
from controller.learner.memoryless import Unlearning
from controller.learner.port import Choice, Context, Menu


class Static(Unlearning, frozen=True, kw_only=True, tag=True):
    """``action_id`` is what it always wants; "" is the baseline."""

    action_id: str = ""

    @property
    def model(self) -> str:
        """Name and version."""
        return "static:1"

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """Always the same. Pure."""
        return surely(self, menu.index(self.action_id), context, menu, seed=seed, at_us=at_us)
