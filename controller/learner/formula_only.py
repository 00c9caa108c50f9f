"""Formula only: what the plant model would choose, without ever looking at what came of it.

With a step curve it asks for the largest cap whose predicted TPOT is within the limit
(``controller.plant.laws.cap_for_tpot``); without one it takes the action of the highest predicted
reward. What a learner adds is what it earns beyond this.

>>> from controller.learner.port import Action, Arm
>>> from policies.settings import Setting
>>> caps = [Arm.on((4, 8, 16), "active_cap", Setting(value=cap)) for cap in (4, 8, 16)]
>>> menu = Menu(actions=tuple(map(Action.of, caps)), mask=(True,) * 3, baseline=0, current=0)
>>> curve = StepCurve(base_us=20_000, per_decode_us=2_000, per_prefill_us=0, steps=9, residual=0)
>>> asking = FormulaOnly(curve=curve, tpot_ms=42.0)
>>> asking.choose(Context(), menu, seed=0, at_us=0).action.words()
'active_cap=8'
"""

from __future__ import annotations

from controller.learner.choosing import position, surely
from controller.learner.memoryless import Unlearning
from controller.learner.port import Choice, Context, Menu
from controller.plant.laws import cap_for_tpot
from controller.plant.step_curve import StepCurve


class FormulaOnly(Unlearning, frozen=True, kw_only=True, tag=True):
    """``curve`` of the engine as fitted, ``tpot_ms`` to keep, prompt tokens per token decoded."""

    place: str = "active_cap"
    curve: StepCurve | None = None
    tpot_ms: float = 50.0
    prefill_per_decode: float = 0.0
    safety: float = 0.0

    @property
    def model(self) -> str:
        """Name and version."""
        return "formula_only:1"

    def choose(self, context: Context, menu: Menu, *, seed: int, at_us: int) -> Choice:
        """The formula's cap, or the action of the highest predicted reward. Pure."""
        index = self._by_curve(menu)
        if index is None:
            index = max(menu.allowed, key=lambda at: (menu.actions[at].expected, -at))
        return surely(self, index, context, menu, seed=seed, at_us=at_us)

    def _by_curve(self, menu: Menu) -> int | None:
        caps = {
            value: index
            for index in menu.allowed
            if position(menu.actions[index], self.place) is not None
            and (value := menu.actions[index].arms[0].setting.value) is not None
        }
        if self.curve is None or not caps:
            return None
        return caps[
            cap_for_tpot(
                self.curve,
                self.tpot_ms,
                prefill_per_decode=self.prefill_per_decode,
                ladder=sorted(caps),
                safety=self.safety,
            )
        ]
