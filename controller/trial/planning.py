"""From an approved policy to a frozen plan: lengths, margins, references, all before it starts.

``w = max(2 × effect delay, 2 × p95 residual drain)``; block ``≥ max(3w, w + 2H, the declared
block)``; a law's block is ``w`` and whole cycles of its context. What can't be planned honestly is
not tried: the reason is returned instead. A setting that sessions can be split by is
tried so; else it is a crossover with a ``split`` of replicas, and a switchback without.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.config.sections import TrialSettings
from controller.judge.rarity import units_to_exclude
from controller.limiting import GUARD, guards_of
from controller.plant.cycles import cycle_s, whole_cycles_s
from controller.plant.laws import reference_tokens_per_s
from controller.state import Declared, PlantInput
from controller.trial.feedback import is_aged
from controller.trial.splitting import by_session
from controller.trials import Design, GuardPlan, IntentPlan, Split, TrialPlan
from policies.knobs import KnobSpec
from policies.laws import Law
from policies.policy import Policy
from policies.settings import Setting
from signals.settings import IntentSettings

UTILITY_SCALE = 1.0
RATE_SCALE = 0.5
ASSUMED_TOKENS = 64
"""Output length a deadline is computed from while no request of the intent has been seen."""


def plan(
    policy: Policy,
    declared: Declared,
    spec: KnobSpec,
    plant: PlantInput,
    *,
    baseline: Setting,
    trial_id: str,
    seed: int,
    split: Split | None = None,
) -> TrialPlan | str:
    """The plan to freeze, or why this policy can't be tried now; without users' feedback yet."""
    limits = declared.trial
    intents = intents_of(declared, plant)
    washout_s = washout_of(declared, spec.effect_delay_s, plant)
    at_least_s = shortest_block_s(intents, washout_s, limits.block_s)
    cycle, block_s = None, round(at_least_s, 1)
    law = policy.setting.law or baseline.law
    if law is not None:
        cycle = limits.cycle_s or _cycle(law, declared, plant)
        if policy.setting.law is not None and cycle is None:
            return "the context's cycle is unknown: no whole cycles to try a law over"
        if cycle is not None:
            block_s = round(whole_cycles_s(cycle, washout_s=washout_s, at_least_s=at_least_s), 1)
    design = _design(split, sessions=by_session(policy, spec, plant))
    return TrialPlan(
        id=trial_id,
        policy_id=policy.id,
        target=policy.target,
        knob=policy.knob,
        scope=policy.scope,
        hypothesis=_hypothesis(policy, design),
        scale=UTILITY_SCALE,
        guards=_guards(policy, declared),
        alpha=limits.alpha,
        harm_alpha=limits.alpha,
        guard_alpha=limits.guard_alpha,
        min_units=limits.min_units,
        max_units=_max_units(limits),
        rarest_loss=limits.rarest_loss,
        block_s=block_s,
        washout_s=washout_s,
        cycle_s=cycle,
        min_requests=limits.min_requests,
        seed=seed,
        maximize=declared.target.maximized,
        reference_tokens_per_s=reference_of(declared, spec, plant),
        intents=intents,
        max_error_rate=limits.max_error_rate,
        min_errors=limits.min_errors,
        trip_ratio=limits.trip_ratio,
        trip_misses=limits.trip_misses,
        max_trips=limits.max_trips,
        baseline=baseline,
        candidate=policy.setting,
        design=design,
        split=((), ()) if split is None else split,
    )


def _design(split: Split | None, *, sessions: bool) -> Design:
    if sessions:
        return "session_split"
    return "switchback" if split is None else "crossover"


def _hypothesis(policy: Policy, design: Design) -> str:
    where = " of the sessions that have it," if design == "session_split" else ""
    return f"{policy.words()} raises U{where} without making any guard worse by its margin"


def _max_units(limits: TrialSettings) -> int:
    """As set, or as many as it takes to exclude rare losses where that is asked for."""
    if limits.rarest_loss is None:
        return limits.max_units
    return max(limits.max_units, units_to_exclude(limits.rarest_loss))


def intents_of(declared: Declared, plant: PlantInput) -> tuple[IntentPlan, ...]:
    """What U and the guards need to know of each intent, by name."""
    return tuple(_intent(name, one, plant) for name, one in sorted(declared.target.intents.items()))


def washout_of(declared: Declared, effect_delay_s: float, plant: PlantInput) -> float:
    """How long a block's beginning is not counted, in seconds."""
    if declared.trial.washout_s is not None:
        return declared.trial.washout_s
    return round(max(2 * effect_delay_s, 2 * plant.drain_p95_s), 1)


def shortest_block_s(intents: tuple[IntentPlan, ...], washout_s: float, declared_s: float) -> float:
    """The declared length, or what is needed for something to be counted in it."""
    longest_h_s = max(intent.deadline_s for intent in intents)
    return max(3 * washout_s, washout_s + 2 * longest_h_s, declared_s)


def reference_of(declared: Declared, spec: KnobSpec, plant: PlantInput) -> float:
    """Tokens per second that divide the maximised rate inside U."""
    return round(reference_tokens_per_s(plant, spec.capacity, model=declared.plant), 3)


def _intent(name: str, intent: IntentSettings, plant: PlantInput) -> IntentPlan:
    slo = intent.slo
    declared_us = slo.deadline_us(ASSUMED_TOKENS) or 0
    return IntentPlan(
        name=name,
        target_attainment=slo.attainment,
        deadline_s=round(plant.deadline_s.get(name, declared_us / 1e6), 3),
        ttft_slo_s=None if slo.ttft_ms is None else slo.ttft_ms / 1000,
    )


def _guards(policy: Policy, declared: Declared) -> tuple[GuardPlan, ...]:
    """Attainment of every intent of the engine, and what the policy itself asks for."""
    return tuple(
        GuardPlan(
            metric=guard.metric,
            margin=guard.margin,
            scale=RATE_SCALE if guard.metric.startswith(f"{GUARD}:") else UTILITY_SCALE,
        )
        for guard in guards_of(declared, policy.guards)
        if not is_aged(guard)
    )


def _cycle(law: Law, declared: Declared, plant: PlantInput) -> float | None:
    seconds = plant.arrivals if law.variable == "arrivals" else plant.offered
    classes = {name: one.class_ for name, one in declared.target.intents.items()}
    return cycle_s(law, [(at, _of_class(law.class_, counts, classes)) for at, counts in seconds])


def _of_class(class_: str | None, counts: Mapping[str, int], classes: Mapping[str, str]) -> float:
    return float(sum(n for name, n in counts.items() if class_ in (None, classes.get(name))))
