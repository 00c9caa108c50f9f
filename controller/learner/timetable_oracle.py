"""The timetable oracle: told beforehand which action is best from when on.

Made from the truth of a simulated world, over the loop's own actions. What nobody can be told in
reality is the upper bound that a learner's utility is divided by.

>>> from controller.learner.port import Action, Arm
>>> from policies.settings import Setting
>>> two = tuple(Action.of(Arm.on((4, 8), "cap", Setting(value=cap))) for cap in (4, 8))
>>> menu = Menu(actions=two, mask=(True, True), baseline=0, current=0)
>>> oracle = TimetableOracle(slots=(Slot(from_us=100, action_id=two[1].id),))
>>> [oracle.choose(Context(), menu, seed=0, at_us=at).action.words() for at in (0, 100)]
['cap=4', 'cap=8']
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from msgspec import Struct

from controller.learner.choosing import surely
from controller.learner.memoryless import Unlearning
from controller.learner.port import Choice, Context, Menu
from signals.errors import Rejected


class Slot(Struct, frozen=True, kw_only=True):
    """From this time on this action is best."""

    from_us: int
    action_id: str


class TimetableOracle(Unlearning, frozen=True, kw_only=True, tag=True):
    """``slots`` rise in time. Before the first, and where the best is masked: the baseline."""

    slots: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        if any(b.from_us <= a.from_us for a, b in pairwise(self.slots)):
            raise Rejected("slots rise in time", field="slots", value=len(self.slots))

    @property
    def model(self) -> str:
        """Name and version."""
        return "timetable_oracle:1"

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """What the timetable says for now. Pure."""
        passed = bisect_right(self.slots, at_us, key=lambda slot: slot.from_us)
        index = menu.index(self.slots[passed - 1].action_id) if passed else None
        return surely(self, index, context, menu, seed=seed, at_us=at_us)
