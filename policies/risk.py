"""How risky a change is: computed from the knob and the step, never said by who proposes it. Pure.

The class begins at the knob's own (``KnobSpec.risk``, by who built the engine). Facts count::

    law        it moves by itself, also while nobody looks
    step       it goes more than 2 ladder values at once (without a ladder: half the range)
    untried    it goes beyond everything that was ever in force here, baseline and boot included
    drains     it lands, and is undone, only as work finishes

From 3 facts on the class is one higher. A change that **lowers risk** is one class lower: it goes
towards the baseline, or in the direction that was declared safer, and not beyond what was tried.
High risk needs two people, unless it lowers risk; then one is enough, also the proposer himself.

>>> cap = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64,
...                capability="drain", effect_delay_s=1.0)
>>> found = assess(Setting(value=1), before=Setting(value=8), spec=cap,
...                ladder=(1, 2, 4, 8, 16, 32, 64), tried={8}, baseline=Setting(value=8))
>>> found.risk, found.approvals_needed, found.why
('high', 2, ('step of 3 ladder values', '3 ladder values beyond what was tried', 'drains'))
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, get_args

from msgspec import Struct

from policies.knobs import KnobSpec, Risk, Safer
from policies.settings import Setting
from policies.steps import direction, share_of_range, step, steps_beyond, values_of

CLASSES: Final[tuple[Risk, ...]] = get_args(Risk)
LONG_STEP: Final = 2
LONG_SHARE: Final = 0.5
FACTS: Final = 3


class Assessed(Struct, frozen=True, kw_only=True):
    """``lowers``: it lowers risk. ``why``: the facts that count, in words, with their figures."""

    risk: Risk
    lowers: bool
    why: tuple[str, ...]

    @property
    def approvals_needed(self) -> int:
        """How many different people must say yes."""
        return 2 if self.risk == "high" and not self.lowers else 1


def assess(
    setting: Setting,
    *,
    before: Setting,
    spec: KnobSpec,
    ladder: Sequence[int],
    tried: Collection[int],
    baseline: Setting | None,
    safer: Safer | None = None,
) -> Assessed:
    """The class of a change from ``before`` to ``setting``.

    ``tried``: values that were in force on this place. ``baseline`` None: the boot value.
    """
    ground = baseline or Setting(value=spec.boot)
    known = {*tried, *values_of(before), *values_of(ground), spec.boot}
    facts = _facts(setting, before, spec, ladder, known)
    lowers = _lowers(setting, before, ground, known, safer)
    rank = CLASSES.index(spec.risk) + (len(facts) >= FACTS) - lowers
    why = (*facts, *(("lowers risk",) if lowers else ()))
    return Assessed(risk=CLASSES[max(0, min(rank, 2))], lowers=lowers, why=why)


def _facts(
    setting: Setting,
    before: Setting,
    spec: KnobSpec,
    ladder: Sequence[int],
    known: set[int],
) -> tuple[str, ...]:
    found = []
    steps, share = step(before, setting, ladder), share_of_range(before, setting, spec)
    if setting.law is not None:
        found.append("law")
    elif steps > LONG_STEP:
        found.append(f"step of {steps} ladder values")
    elif not ladder and share > LONG_SHARE:
        found.append(f"step of {share:.0%} of the range")
    beyond = max((steps_beyond(value, known, ladder) for value in values_of(setting)), default=0)
    outside = any(not min(known) <= value <= max(known) for value in values_of(setting))
    if outside:
        far = f"{beyond} ladder values " if beyond else ""
        found.append(f"{far}beyond what was tried")
    if spec.capability == "drain" and setting.shrink == "drain":
        found.append("drains")
    return tuple(found)


def _lowers(
    setting: Setting, before: Setting, ground: Setting, known: set[int], safer: Safer | None
) -> bool:
    """Towards the baseline, or in the safer direction within what was tried."""
    if setting == before:
        return False
    if (setting.value, setting.law) == (ground.value, ground.law):
        return True
    new = values_of(setting)
    if safer is not None and direction(before, setting) == safer:
        return all(min(known) <= value <= max(known) for value in new)
    if None in (setting.value, before.value, ground.value):
        return False
    low, high = sorted((before.value or 0, ground.value or 0))
    return low <= new[0] <= high and setting.value != before.value
