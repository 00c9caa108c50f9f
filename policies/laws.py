"""Control laws: a bounded step function, with hysteresis, of one exogenous variable.

A law is *one* setting. It is approved and judged once, as a law; its moves change the observed
value and the change log, never the settings' version or digest. The variable is exogenous (what
arrives), never a queue depth, so the law's own effect cannot feed back into its input.

>>> law = Law(variable="arrivals", class_="interactive", window_s=2.0, default=64,
...           steps=(LawStep(above=0, value=8),), min_dwell_s=0.0)
>>> state = start(law, now_s=0.0)
>>> state.value, advance(law, state, x=1, now_s=1.0).value
(64, 8)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from msgspec import Struct, field

from signals.errors import Rejected

Variable = Literal["arrivals", "offered_tokens_per_s"]


class LawStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``value`` is in force while the variable is greater than ``above``."""

    above: float
    value: int


class Law(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``steps`` rise in ``above``; ``default`` is in force at or below the first of them.

    ``class_`` (``class`` on the wire): whose arrivals or offered tokens are counted; None counts
    all. ``window_s``: the variable looks back this far. A step, once entered, is left only when the
    variable has fallen to ``above - hysteresis`` and ``min_dwell_s`` has passed; entering a higher
    step is never delayed.
    """

    variable: Variable
    class_: str | None = field(name="class", default=None)
    window_s: float
    default: int
    steps: tuple[LawStep, ...]
    hysteresis: float = 0.0
    min_dwell_s: float = 0.0

    def values(self) -> tuple[int, ...]:
        """Every value this law can put the knob to, default first."""
        return (self.default, *(step.value for step in self.steps))


class LawState(Struct, frozen=True, kw_only=True):
    """Where a law stands: ``level`` 0 is the default, ``level`` i is ``steps[i-1]``."""

    level: int
    value: int
    since_s: float


MAX_STEPS = 16
MAX_WINDOW_S = 600.0


def check(law: Law, check_value: Callable[[int, str], None], *, field: str) -> None:
    """Raise ``Rejected`` unless the law is bounded, ordered and within the knob's range."""
    if not 1 <= len(law.steps) <= MAX_STEPS:
        raise Rejected("a law has 1 to 16 steps", field=f"{field}.steps", value=len(law.steps))
    if not 0 < law.window_s <= MAX_WINDOW_S:
        raise Rejected(
            "window_s is out of range",
            field=f"{field}.window_s",
            value=law.window_s,
            allowed=f"0 < window_s <= {MAX_WINDOW_S:g} s",
        )
    if not 0 <= law.min_dwell_s <= MAX_WINDOW_S or not 0 <= law.hysteresis < float("inf"):
        raise Rejected("hysteresis and min_dwell_s are finite and not negative", field=field)
    levels = [step.above for step in law.steps]
    finite = all(0 <= level < float("inf") for level in levels)
    if not finite or any(b <= a for a, b in pairwise(levels)):
        raise Rejected(
            "steps rise strictly in `above`, from 0, and are finite",
            field=f"{field}.steps",
            value=levels,
        )
    check_value(law.default, f"{field}.default")
    for index, step in enumerate(law.steps):
        check_value(step.value, f"{field}.steps[{index}].value")


def start(law: Law, *, now_s: float) -> LawState:
    """The state of a law that has just been applied: its default."""
    return LawState(level=0, value=law.default, since_s=now_s)


def advance(law: Law, state: LawState, *, x: float, now_s: float) -> LawState:
    """The state after seeing the variable at ``x``; the same object when nothing moved."""
    entered = sum(1 for step in law.steps if x > step.above)
    if entered > state.level:
        return _at(law, entered, now_s)
    held = sum(1 for step in law.steps if x > step.above - law.hysteresis)
    level = max(entered, min(held, state.level))
    if level == state.level or now_s - state.since_s < law.min_dwell_s:
        return state
    return _at(law, level, now_s)


def _at(law: Law, level: int, now_s: float) -> LawState:
    value = law.steps[level - 1].value if level else law.default
    return LawState(level=level, value=value, since_s=now_s)
