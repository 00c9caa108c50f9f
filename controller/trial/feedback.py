"""What users' feedback asks of a trial: at which age it counts, and how many must be exposed. Pure.

A metric that is declared (``metrics``: business or semantic) has an attribution window; its age in
a trial is that window's length, so that a trial's figure means what its rate means. The number of
exposures it takes is told before anything begins, from the metric's own rate, the margin, and how
many sessions or requests really come; see ``controller.judge.sample_size``.

=============  ====================================================================================
guard, shown   so many fit into the trial: IMPROVED waits for them, and the policy, kept
               provisionally, goes back unless they show that the metric is no worse by the margin
guard only     they do not fit, or it would take more than ``trial.feedback_days``: the policy goes
               back if they show harm
primary        only by session, and only where they fit; else the trial is refused
=============  ====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from controller.config.sections import TrialSettings
from controller.judge.sample_size import FEWEST_UNITS, POWER, UNKNOWN, exposures_needed
from controller.state import Draft, PlantInput, Seen
from controller.trials import AgedPlan, TrialPlan
from policies.knobs import TARGET_SCOPE
from policies.policy import Guard, Policy
from signals.definitions import absent_counts
from signals.settings import MetricSettings

DAY_S: Final = 86_400
RATE: Final = "_rate"
ENGINE_OWN: Final = ":"
"""In the names of what the engine itself tells of an intent, and in no declared metric's."""


class Feedback(Struct, frozen=True, kw_only=True):
    """Declared metrics in force, what they are now (``<scope>.<metric>_rate``), and the producers
    whose share of rates is capped."""

    metrics: Mapping[str, MetricSettings] = {}
    rates: Mapping[str, float] = {}
    capped: tuple[str, ...] = ()


def is_aged(guard: Guard) -> bool:
    """Whether it is a declared metric's, which is known only once exposures are old enough."""
    return ENGINE_OWN not in guard.metric


def asks_feedback(policy: Policy) -> bool:
    """Whether users' feedback has a say in a policy."""
    return policy.primary is not None or any(is_aged(guard) for guard in policy.guards)


def known_feedback(draft: Draft, seen: Seen) -> Feedback:
    """What is known of users' feedback now."""
    return Feedback(
        metrics=draft.state.asked.metrics,
        rates={name: value for name, value in seen.features.items() if name.endswith(RATE)},
        capped=draft.state.asked.capped,
    )


def with_feedback(
    plan: TrialPlan, policy: Policy, known: Feedback, plant: PlantInput, limits: TrialSettings
) -> TrialPlan | str:
    """The plan with what feedback it is judged by, or why it can't be."""
    aged = []
    for guard in (one for one in policy.guards if is_aged(one)):
        if policy.primary is not None and guard.metric == policy.primary.metric:
            continue
        found = _aged(plan, guard, known, plant, limits, alpha=plan.guard_alpha)
        if isinstance(found, str):
            return found
        aged.append(found)
    least = max((one.units for one in aged if one.shown), default=0)
    plan = structs.replace(plan, aged=tuple(aged), least_units=least)
    return plan if policy.primary is None else _primary(plan, policy.primary, known, plant, limits)


def sized_words(plan: TrialPlan, aged: AgedPlan) -> str:
    """How many it takes and what follows, in a line: for whoever approves it."""
    primary = aged == plan.aged_primary
    base = "not known, .5 taken" if aged.base is None else f"{aged.base:.3g}"
    alpha = plan.alpha if primary else plan.guard_alpha
    told = (
        f"{aged.metric}: {aged.needed:,} {aged.exposure}s of each arm needed (now {base}, margin"
        f" {aged.margin:g}, α {alpha:g}, power {POWER:g}), {aged.per_day:,.0f} a day counted:"
        f" {_long(aged)}, known {_span(aged.age_s)} later"
    )
    if primary:
        return f"{told}; it is what the trial is judged by"
    if aged.shown:
        return f"{told}; kept provisionally until it is shown to be no worse"
    return f"{told}; guard only: it is reverted if harm is seen, but no harm can't be shown in time"


def _primary(
    plan: TrialPlan, wanted: Guard, known: Feedback, plant: PlantInput, limits: TrialSettings
) -> TrialPlan | str:
    if plan.design != "session_split":
        return (
            f"{wanted.metric} can be the primary metric only where sessions are split: one intent's"
            " setting of a knob that counts when a request arrives, of requests with a session"
        )
    found = _aged(plan, wanted, known, plant, limits, alpha=plan.alpha)
    if isinstance(found, str):
        return found
    if not found.shown:
        return (
            f"{wanted.metric} can't be the primary metric: {found.needed:,} {found.exposure}s of"
            f" each arm are needed, {_long(found)}; allowed are {plan.max_units} units and"
            f" {limits.feedback_days} days. Raise trial.max_units or trial.block_s, or ask for"
            " it as a guard"
        )
    return structs.replace(
        plan,
        primary=found.metric,
        scale=found.scale,
        aged_primary=found,
        least_units=max(plan.least_units, found.units),
        hypothesis=plan.hypothesis.replace("raises U", f"betters {found.metric}", 1),
    )


def _aged(
    plan: TrialPlan,
    guard: Guard,
    known: Feedback,
    plant: PlantInput,
    limits: TrialSettings,
    *,
    alpha: float,
) -> AgedPlan | str:
    metric = known.metrics.get(guard.metric)
    if metric is None:
        return f"no metric {guard.metric} is in force"
    low, high = _bounds(metric)
    base = known.rates.get(f"{plan.scope}.{guard.metric}_rate")
    share = UNKNOWN if base is None else min(1.0, max(0.0, (base - low) / (high - low)))
    needed = exposures_needed(share, guard.margin / (high - low), alpha=alpha)
    per_unit, unit_s = _exposed(plan, plant), plan.block_s * plan.blocks_per_unit
    units = max(FEWEST_UNITS, math.ceil(2 * needed / per_unit)) if per_unit > 0 else 0
    days = units * unit_s / DAY_S if units else math.inf
    return AgedPlan(
        metric=guard.metric,
        margin=guard.margin,
        age_s=metric.attribution_s,
        low=low,
        high=high,
        sign=1 if metric.direction == "up" else -1,
        absent_zero=absent_counts(metric),
        adds=metric.type in ("count", "duration"),
        capped=known.capped,
        base=base,
        exposure="session" if plan.design == "session_split" else "request",
        needed=needed,
        per_day=round(per_unit / unit_s * DAY_S, 1),
        days=round(days, 3) if units else 0.0,
        units=units,
        shown=0 < units <= plan.max_units and days <= limits.feedback_days,
    )


def _bounds(metric: MetricSettings) -> tuple[float, float]:
    """Of a request's value: the metric's, widened to hold the zero of who is silent."""
    if not absent_counts(metric):
        return metric.low, metric.high
    return min(metric.low, 0.0), max(metric.high, 0.0)


def _exposed(plan: TrialPlan, plant: PlantInput) -> float:
    """How many a unit exposes that count, both arms together, as they came of late."""
    mine = [one for one in plan.intents if plan.scope in (TARGET_SCOPE, one.name)]
    tail_s = max((one.deadline_s for one in mine), default=0.0)
    if plan.design == "session_split":
        return plant.new_sessions_per_s.get(plan.scope, 0.0) * max(0.0, plan.block_s - tail_s)
    counted_s = max(0.0, plan.block_s - plan.washout_s - tail_s)
    names = {one.name for one in mine}
    seen = sum(n for _, counts in plant.arrivals for name, n in counts.items() if name in names)
    ends = [at_us for at_us, _ in plant.arrivals]
    span_s = (max(ends) - min(ends)) / 1e6 + 1.0 if ends else 1.0
    return seen / span_s * counted_s * plan.blocks_per_unit


def _long(aged: AgedPlan) -> str:
    if not aged.units:
        return f"and no {aged.exposure} came of late"
    return f"{aged.days:.3g} days, {aged.units} units"


def _span(seconds: int) -> str:
    """``7 d``, ``90 min``, ``30 s``."""
    for unit, of in (("d", DAY_S), ("h", 3600), ("min", 60)):
        if seconds >= of and seconds % of == 0:
            return f"{seconds // of} {unit}"
    return f"{seconds} s"
