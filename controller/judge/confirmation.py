"""Is what was kept without users' feedback to stay, now that they have said something?

The units are those of the trial itself, and d of each is the arms' difference at the metric's age
(``aged``). Sessions and blocks were tossed before anybody could know what users would say, so the
tests are those of every guard (``verdict``), looked at once::

    HARMED      E(−d) ≥ G/α                                     it goes back
    shown       E(d + margin) ≥ 1/guard_α, pessimistic mean > 0  it stays
    NO_DATA     not one unit with a value in both arms          it goes back: nobody could say
    else        where as many were exposed as it takes, it goes back: no worse was to be shown;
                where so many could not be (guard only), it stays: no harm was seen

with G the number of such metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from controller.judge.aged import aged_difference, aged_means
from controller.judge.carry_over import plan_in_force
from controller.judge.effects import t_interval
from controller.judge.eprocess import e_value, guard_e_value, pessimistic_mean
from controller.trials import AgedPlan, Trial, TrialPlan, Unit
from policies.runtime_config import Arm
from signals.features.model import Outcome, RequestRow

Found = Literal["harmed", "shown", "no_data", "not_shown", "no_harm"]


class AgedRows(Struct, frozen=True, kw_only=True):
    """A block's requests, what users said of them, and sessions that came in an earlier block."""

    requests: Sequence[RequestRow]
    outcomes: Sequence[Outcome]
    earlier: frozenset[str] = frozenset()


class Confirmation(Struct, frozen=True, kw_only=True):
    """What one metric says of a policy that was kept provisionally. ``e_worse``, ``e_no_worse``."""

    metric: str
    found: Found
    words: str
    units: int
    e_worse: float = 1.0
    e_no_worse: float = 1.0

    @property
    def stays(self) -> bool:
        """Whether the policy may stay for all that this metric says."""
        return self.found in ("shown", "no_harm")


def aged_d(
    trial: Trial, unit: Unit, aged: AgedPlan, rows: Mapping[int, AgedRows]
) -> tuple[float | None, dict[Arm, float]]:
    """A unit's difference of one metric, and what each arm showed."""
    plan, both = plan_in_force(trial, unit.index), dict[Arm, float]()
    for block in (one for one in unit.blocks if one.index in rows):
        here = rows[block.index]
        both |= aged_means(plan, aged, block, here.requests, here.outcomes, here.earlier)
    return aged_difference([both]), both


def confirmation(trial: Trial, aged: AgedPlan, rows: Mapping[int, AgedRows]) -> Confirmation:
    """What one metric says, over the units that were counted. Pure."""
    units = [unit for unit in trial.units if unit.judged and unit.void is None]
    ds = [d for unit in units if (d := aged_d(trial, unit, aged, rows)[0]) is not None]
    return ruled(trial.plan, aged, ds)


def ruled(plan: TrialPlan, aged: AgedPlan, ds: Sequence[float]) -> Confirmation:
    """The ruling on the differences of the units. Positive: the candidate is better."""
    if not ds:
        words = f"{aged.metric}: no unit has feedback in both arms"
        return Confirmation(metric=aged.metric, found="no_data", words=words, units=0)
    worse = e_value([-d for d in ds], scale=aged.scale)
    no_worse = guard_e_value(ds, margin=aged.margin)
    found: Found = "not_shown" if aged.shown else "no_harm"
    if worse >= len(plan.aged) / (plan.harm_alpha or plan.alpha):
        found = "harmed"
    elif no_worse >= 1 / plan.guard_alpha and pessimistic_mean([d + aged.margin for d in ds]) > 0:
        found = "shown"
    return Confirmation(
        metric=aged.metric,
        found=found,
        words=f"{_effect(aged, ds)}: {_WORDS[found].format(margin=aged.margin)} (E worse"
        f" {worse:.3g}, E no worse by {aged.margin:g} {no_worse:.3g})",
        units=len(ds),
        e_worse=worse,
        e_no_worse=no_worse,
    )


_WORDS = {
    "harmed": "it is worse",
    "shown": "not worse by {margin:g}",
    "not_shown": "not shown to be no worse by {margin:g}",
    "no_harm": "no harm seen; too few were exposed to show more",
}


def _effect(aged: AgedPlan, ds: Sequence[float]) -> str:
    """In the metric's own direction, as people know it."""
    mean = aged.sign * sum(ds) / len(ds)
    if len(ds) < 2:
        return f"{aged.metric} {mean:+.4g} (1 unit)"
    low, high = sorted(aged.sign * end for end in t_interval(ds))
    return f"{aged.metric} {mean:+.4g} (95 % interval {low:+.4g} to {high:+.4g}, {len(ds)} units)"
