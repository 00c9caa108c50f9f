"""The ruling: IMPROVED, HARMED, INCONCLUSIVE, NO_DATA, or go on; looked at when a unit closes.

=============  ====================================================================================
HARMED         E(−d) ≥ (G+1)/α for the primary metric or any of the G guard metrics
INCONCLUSIVE   ``max_trips`` latency trips
IMPROVED       E(d) ≥ 1/α and the pessimistic mean of d > 0, and for every guard
               E(d + margin) ≥ 1/guard_α and the pessimistic mean of d + margin > 0; where the
               plan asks for rare losses: from as many units on as exclude them, and large losses
               not more than large gains, in every metric (``rarity``)
NO_DATA        ``min_units`` closed and not one with data; neither good nor bad
INCONCLUSIVE   ``max_units`` closed without another verdict
=============  ====================================================================================

IMPROVED waits for ``least_units`` where users' feedback is to be read later: so many must have been
exposed. Checked in that order; HARMED and IMPROVED by evidence from ``min_units`` counted units on.
``max_units`` counts void units too, so that a trial ends; not where rare losses are to be excluded,
for a void unit excludes nothing, and one of them would end a plan of just so many in vain. HARMED
needs no mean condition: a consistent loss is enough to go back. Hard trips are ruled by
``hard_ruling``, apart from evidence.
"""

from __future__ import annotations

from msgspec import structs

from controller.judge.carry_over import counted_units
from controller.judge.effects import effects
from controller.judge.eprocess import e_value, guard_e_value, pessimistic_mean
from controller.judge.rarity import loses_big, units_to_exclude
from controller.judge.words import guard_test, words
from controller.trials import GuardPlan, Ruling, Trial, TrialPlan, Unit
from policies.policy import Verdict


def rule_on(trial: Trial) -> Ruling:
    """Where the trial stands after its closed units. Pure; the same trial, the same ruling."""
    plan = trial.plan
    units = counted_units(trial)
    closed = sum((unit.judged and unit.ripe) or unit.void is not None for unit in trial.units)
    e = e_values(trial)
    found: tuple[Verdict | None, str | None] = (None, None)
    enough = len(units) >= plan.min_units
    exposed = len(units) >= plan.least_units or closed >= plan.max_units
    if enough and (metric := _harmed(trial, e)):
        found = ("HARMED", f"evidence:{metric}")
    elif trial.trips >= plan.max_trips:
        found = ("INCONCLUSIVE", "latency_trips")
    elif enough and exposed and _improved(trial, e, units):
        found = ("IMPROVED", f"evidence:{plan.primary}")
    elif not units and closed >= plan.min_units:
        found = ("NO_DATA", "no_data")
    elif (closed if plan.rarest_loss is None else len(units)) >= plan.max_units:
        found = ("INCONCLUSIVE", "max_units")
    verdict, cause = found
    effect = effects(trial).get(plan.primary)
    bare = Ruling(verdict=verdict, cause=cause, words="", units=len(units), e=e, effect=effect)
    return structs.replace(bare, words=words(trial, bare, closed))


def hard_ruling(trial: Trial, cause: str) -> Ruling:
    """HARMED at once with a hard trip's cause; the evidence so far is kept beside it."""
    units = len(counted_units(trial))
    return Ruling(
        verdict="HARMED",
        cause=cause,
        words=f"HARMED by a trip, not by the e-process: {cause}; {units} units counted before",
        units=units,
        e=e_values(trial),
        effect=effects(trial).get(trial.plan.primary),
    )


def e_values(trial: Trial) -> dict[str, float]:
    """Every test's e-value by its name: ``U>0``, ``U<0``; for a guard ``m>-margin`` and ``m<0``."""
    plan, units = trial.plan, counted_units(trial)
    ds = _ds(units, plan.primary)
    e = {
        f"{plan.primary}>0": e_value(ds, scale=plan.scale),
        f"{plan.primary}<0": e_value([-d for d in ds], scale=plan.scale),
    }
    for guard in plan.guards:
        ds = _ds(units, guard.metric)
        e[guard_test(guard)] = guard_e_value(ds, margin=guard.margin)
        e[f"{guard.metric}<0"] = e_value([-d for d in ds], scale=guard.scale)
    return e


def _ds(units: list[Unit], metric: str) -> list[float]:
    return [unit.d[metric] for unit in units if metric in unit.d]


def _harmed(trial: Trial, e: dict[str, float]) -> str | None:
    """The first metric that is worse beyond α/(G+1), primary first."""
    plan = trial.plan
    limit = plan.harm_limit
    metrics = (plan.primary, *(guard.metric for guard in plan.guards))
    return next((metric for metric in metrics if e[f"{metric}<0"] >= limit), None)


def _improved(trial: Trial, e: dict[str, float], units: list[Unit]) -> bool:
    plan = trial.plan
    if e[f"{plan.primary}>0"] < 1 / plan.alpha:
        return False
    if pessimistic_mean(_ds(units, plan.primary)) <= 0:
        return False
    if not all(_guard_passes(trial, guard, e, units) for guard in plan.guards):
        return False
    return plan.rarest_loss is None or _without_rare_losses(plan, plan.rarest_loss, units)


def _without_rare_losses(plan: TrialPlan, share: float, units: list[Unit]) -> bool:
    if len(units) < units_to_exclude(share):
        return False
    scales = {plan.primary: plan.scale} | {guard.metric: guard.scale for guard in plan.guards}
    return not any(loses_big(_ds(units, metric), scale=s) for metric, s in scales.items())


def _guard_passes(trial: Trial, guard: GuardPlan, e: dict[str, float], units: list[Unit]) -> bool:
    if e[guard_test(guard)] < 1 / trial.plan.guard_alpha:
        return False
    return pessimistic_mean([d + guard.margin for d in _ds(units, guard.metric)]) > 0
