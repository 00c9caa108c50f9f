"""The plans and the worlds of ``make bench-judge``; every figure that matters is printed from here.

The primary metric is log TTFT (−ln), the guards are the attainment of both intents, as production
has a guard for every intent of an engine.
"""

from __future__ import annotations

from typing import Final

import msgspec

from benchmarks.queue_model import BATCH, LIVE, CapLaw, World
from controller.judge.rarity import units_to_exclude
from controller.trials import PRIMARY, Design, GuardPlan, IntentPlan, TrialPlan
from policies.settings import Setting

LOG_TTFT: Final = f"neg_log_ttft:{LIVE}"
REPLICAS: Final = ("chat-0", "chat-1")
SLOWER: Final = 1.03
WARM_UP_S: Final = 30

WORLDS: Final = (
    World(name="attainment .99", chats_per_s=11.5, load_sd=0.15, flood=0),
    World(name="attainment .92", chats_per_s=13.8, load_sd=0.15, flood=0),
    World(name="near saturation", chats_per_s=15.0, load_sd=0.15, flood=0),
)
AZURE: Final = World(name="Azure, replayed", chats_per_s=11.5, load_sd=0.0, flood=0)
POWER_WORLD: Final = WORLDS[0]
LIGHTER: Final = World(name="lighter load", chats_per_s=10.5, load_sd=0.15, flood=0)
"""For effects too: how much of the time to a verdict is the load's."""
LAW_WORLD: Final = World(
    name="80 s phases", chats_per_s=4.0, load_sd=0.15, cap=8, flood=40, phase_s=80.0
)
LAW: Final = CapLaw(idle=32, busy=8)
CYCLE_S: Final = 160.0

CHATS: Final = IntentPlan(name=LIVE, target_attainment=0.97, deadline_s=3.0, ttft_slo_s=1.0)
JOBS: Final = IntentPlan(name=BATCH, target_attainment=0.9, deadline_s=5.0, ttft_slo_s=None)

SWITCHBACK: Final = TrialPlan(
    id="tri",
    policy_id="pol",
    target="chat",
    knob="active_cap",
    hypothesis="step times change",
    primary=LOG_TTFT,
    scale=1.0,
    guards=(GuardPlan(metric=f"attainment:{LIVE}", margin=0.05, scale=0.5),),
    alpha=0.01,
    guard_alpha=0.05,
    min_units=7,
    max_units=60,
    block_s=45.0,
    washout_s=15.0,
    cycle_s=None,
    min_requests=30,
    seed=0,
    maximize=BATCH,
    reference_tokens_per_s=700.0,
    intents=(CHATS,),
    max_error_rate=0.05,
    min_errors=20,
    baseline=Setting(value=16),
    candidate=Setting(value=16),
)


def planned(design: Design, seed: int) -> TrialPlan:
    """The plan of one trial of a design, whose coins are the seed's."""
    split = ((REPLICAS[0],), (REPLICAS[1],)) if design == "crossover" else ((), ())
    return msgspec.structs.replace(SWITCHBACK, design=design, split=split, seed=seed)


def careful(plan: TrialPlan, share: float) -> TrialPlan:
    """The plan, with losses in so few units to be excluded before IMPROVED, as production does."""
    units = max(plan.max_units, units_to_exclude(share))
    return msgspec.structs.replace(plan, rarest_loss=share, max_units=units)


def planned_law(seed: int) -> TrialPlan:
    """A law's trial: U, and a block of the washout and one whole cycle."""
    plan = planned("crossover", seed)
    return msgspec.structs.replace(
        plan,
        primary=PRIMARY,
        intents=(CHATS, JOBS),
        guards=tuple(
            GuardPlan(metric=f"attainment:{intent}", margin=0.05, scale=0.5)
            for intent in (LIVE, BATCH)
        ),
        block_s=plan.washout_s + CYCLE_S,
        cycle_s=CYCLE_S,
    )
