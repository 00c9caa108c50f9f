"""A ruling in one line that an operator understands: what was found, how much, on what evidence."""

from __future__ import annotations

from controller.judge.effects import effects
from controller.judge.rarity import units_to_exclude, unseen_share
from controller.trials import GuardPlan, Ruling, Trial
from policies.policy import Effect


def guard_test(guard: GuardPlan) -> str:
    """The name of a guard's test in ``Ruling.e``: ``attainment:live>-0.02``."""
    return f"{guard.metric}>-{guard.margin:g}"


def words(trial: Trial, ruling: Ruling, closed: int) -> str:
    """One line for the operator: what was found, by how much, on what evidence."""
    plan, e = trial.plan, ruling.e
    up, down = e[f"{plan.primary}>0"], e[f"{plan.primary}<0"]
    effect = _effect_words(ruling.effect, ruling.units)
    if ruling.verdict == "IMPROVED":
        guards = ", ".join(
            f"{guard.metric} not worse by {guard.margin:g} (E {e[guard_test(guard)]:.3g} ≥ "
            f"{1 / plan.guard_alpha:.3g})"
            for guard in plan.guards
        )
        return (
            f"IMPROVED: {effect}; E {up:.3g} ≥ {1 / plan.alpha:.3g}. Guards: {guards or 'none'}."
            f" Not excluded: losses in fewer than {unseen_share(ruling.units):.0%} of units"
        )
    if ruling.verdict == "HARMED":
        metric = str(ruling.cause).partition(":")[2]
        limit = plan.harm_limit
        worse = _effect_words(effects(trial).get(metric), ruling.units)
        beside = "" if metric == plan.primary else f"; {effect}"
        return f"HARMED: {worse}; E that it is worse {e[f'{metric}<0']:.3g} ≥ {limit:.3g}{beside}"
    if ruling.verdict == "NO_DATA":
        return f"NO_DATA: {closed} units closed and none had data to count; this is not a failure"
    if ruling.cause == "latency_trips":
        return f"INCONCLUSIVE: {trial.trips} latency trips, the baseline stays; {effect}"
    if ruling.verdict == "INCONCLUSIVE":
        return f"INCONCLUSIVE: {closed} units closed, the limit; the baseline stays; {effect}"
    rare = 0 if plan.rarest_loss is None else units_to_exclude(plan.rarest_loss)
    least = max(plan.min_units, plan.least_units, rare)
    return (
        f"going on: {effect}; E better {up:.3g} of {1 / plan.alpha:.3g} needed, "
        f"worse {down:.3g} of {plan.harm_limit:.3g}, at least {least} units"
    )


def _effect_words(found: Effect | None, units: int) -> str:
    if found is None:
        return f"{units} unit{'s' * (units != 1)} with data, too few for an interval"
    return (
        f"{found.metric} {found.estimate:+.4g} (95 % interval {found.low:+.4g} to "
        f"{found.high:+.4g}, {units} units)"
    )
