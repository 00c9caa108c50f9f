"""Scenarios on loads that are made by processes; nothing has to be downloaded for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.control.scenario import REPLICA, Scenario, micros
from controller.config.targets import TargetSettings
from engine.simulated.arrivals.change import changed
from engine.simulated.arrivals.kinds import BATCH, LIVE, Kind
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged
from engine.simulated.arrivals.waves import phases
from engine.simulated.faults import Slowdown
from engine.simulated.offered import Arrivals
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes

LADDER = (2, 4, 8, 16, 32, 64)
TOP = LADDER[-1]
HOUR_S = 3600.0
CHANGES_AT_S = 3 * HOUR_S + 47
"""When a load or an engine changes: in the middle of a phase and of a block."""
STEEP = StepTimes(base_us=25_000, per_decode_us=500, per_prefill_us=50, noise_sd=0.05)
"""An engine on which batching pays: 57 ms for 64 sequences, 33 ms for 16."""
NOISY = replace(STEEP, noise_sd=0.25)
"""The same, and no two answers take the same: a limit near the mean is kept by a part of them."""
FLAT = StepTimes(base_us=20_000, per_decode_us=0, per_prefill_us=350, noise_sd=0.05)
"""An engine whose steps take the same whatever is in them; with its memory never short, its cap
binds nowhere below what is offered, and no knob does anything."""

SHORT = Uniform(prompt_tokens=(32, 96), output_tokens=(16, 48))
MIDDLE = Uniform(prompt_tokens=(64, 192), output_tokens=(64, 128))
LONG = Uniform(prompt_tokens=(32, 64), output_tokens=(200, 300))
CODE = Kind("code", "interactive")
CHATS = (Load(kind=LIVE, per_s=1.0, lengths=SHORT), Load(kind=CODE, per_s=0.5, lengths=SHORT))
MORE_CHATS = (
    Load(kind=LIVE, per_s=2.0, lengths=MIDDLE),
    Load(kind=CODE, per_s=1.0, lengths=MIDDLE),
)
JOBS = Load(kind=BATCH, per_s=5.0, lengths=LONG, load_sd=0.1)
"""More than any setting can do: jobs always wait."""
TALKS = (
    Load(kind=LIVE, per_s=0.4, lengths=Uniform(prompt_tokens=(32, 96), output_tokens=(64, 256))),
    Load(kind=CODE, per_s=0.2, lengths=Uniform(prompt_tokens=(32, 96), output_tokens=(64, 256))),
)
"""Long answers, which hold their places for long."""
FEW_JOBS = Load(kind=BATCH, per_s=0.1, lengths=LONG)


def interactive(*, tpot_ms: int, ttft_ms: int = 2000, attainment: float = 0.97) -> dict[str, Any]:
    """An interactive intent with these service levels."""
    slo = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "attainment": attainment}
    return {"class": "interactive", "slo": slo}


def target(
    live: dict[str, Any], code: dict[str, Any], knobs: dict[str, Sequence[int]]
) -> TargetSettings:
    """Two interactive intents and batch work to maximise; ``knobs`` in mode ``auto``."""
    return TargetSettings.model_validate(
        {
            "maximize": "batch.tokens_per_s",
            "intents": {
                "live": live,
                "code": code,
                "batch": {"class": "batch", "slo": {"tpot_ms": 200, "attainment": 0.9}},
            },
            "knobs": {
                name: {"mode": "auto", "ladder": list(ladder)} for name, ladder in knobs.items()
            },
        }
    )


STRICT = target(interactive(tpot_ms=38), interactive(tpot_ms=38), {"active_cap": LADDER})
LOOSE = target(interactive(tpot_ms=70), interactive(tpot_ms=70), {"active_cap": LADDER})
UNEQUAL = target(
    interactive(tpot_ms=42), interactive(tpot_ms=120), {"active_cap": (4, 8, 16, 32, 64)}
)
ANSWERS = target(
    interactive(tpot_ms=38), interactive(tpot_ms=38), {"answer_tokens": (32, 64, 128, 256, 512)}
)
TWO_KNOBS = target(
    interactive(tpot_ms=38),
    interactive(tpot_ms=38),
    {"active_cap": LADDER, "step_token_budget": (64, 128, 256)},
)


def beside(chats: Sequence[Load], jobs: Load, rng: np.random.Generator) -> Arrivals:
    """Chats in phases of 80 s, and jobs all the time."""
    *each, last = rng.spawn(len(chats) + 1)
    in_phases = (
        phases(load, one, on_s=80.0, off_s=80.0) for load, one in zip(chats, each, strict=True)
    )
    return merged(*in_phases, poisson(jobs, last))


def batch_beside_interactive(rng: np.random.Generator) -> Arrivals:
    """See (c)."""
    return beside(CHATS, JOBS, rng)


def sudden(rng: np.random.Generator) -> Arrivals:
    """See (b)."""
    before, after = rng.spawn(2)
    return changed(beside(CHATS, JOBS, before), beside(MORE_CHATS, JOBS, after), at_s=CHANGES_AT_S)


def all_day(rng: np.random.Generator) -> Arrivals:
    """See (g): the same chats without a pause."""
    *each, last = rng.spawn(len(CHATS) + 1)
    chats = (poisson(load, one) for load, one in zip(CHATS, each, strict=True))
    return merged(*chats, poisson(JOBS, last))


def long_answers(rng: np.random.Generator) -> Arrivals:
    """See (h)."""
    *each, last = rng.spawn(len(TALKS) + 1)
    talks = (poisson(load, one) for load, one in zip(TALKS, each, strict=True))
    return merged(*talks, poisson(JOBS, last))


def nothing_binds(rng: np.random.Generator) -> Arrivals:
    """See (j): the chats, and so few jobs that no cap of the ladder's upper half is reached."""
    return beside(CHATS, FEW_JOBS, rng)


def engine(step_times: StepTimes, *, boot_cap: int | None = None) -> ReplicaSpec:
    """One with 64 places."""
    return ReplicaSpec(
        step_times=step_times, capacity_active=TOP, capacity_budget=256, boot_active_cap=boot_cap
    )


TWO_TRIALS_S = 2 * HOUR_S
"""A law's block is a whole cycle of 160 s: two trials, a law's and a better one's, take so long."""
STEEP_REFERENCE = TOP / (STEEP.step_us(decode=TOP, prefill=0, context=0) / 1e6)
FLAT_REFERENCE = TOP / (FLAT.step_us(decode=TOP, prefill=0, context=0) / 1e6)

C = Scenario(
    name="c",
    words="batch beside interactive, phases of 80 s",
    target=STRICT,
    replica=engine(STEEP),
    arrivals=batch_beside_interactive,
    reference=STEEP_REFERENCE,
    life_s=3.25 * HOUR_S,
    scored_from=(TWO_TRIALS_S,),
    stationary=True,
)
AGAIN_S = CHANGES_AT_S + 1.5 * HOUR_S
MADE_BY_PROCESSES = (
    Scenario(
        name="b",
        words="length mix and rate of the chats change suddenly after three hours",
        target=STRICT,
        replica=engine(STEEP),
        arrivals=sudden,
        reference=STEEP_REFERENCE,
        life_s=5.5 * HOUR_S,
        moments=(CHANGES_AT_S,),
        scored_from=(TWO_TRIALS_S, AGAIN_S),
    ),
    C,
    replace(
        C,
        name="f",
        words="as c; after three hours every step silently takes 25 % longer",
        life_s=5.5 * HOUR_S,
        moments=(CHANGES_AT_S,),
        scored_from=(TWO_TRIALS_S, AGAIN_S),
        faults=(Slowdown(replica=REPLICA, at_us=micros(CHANGES_AT_S), factor=1.25),),
        stationary=False,
    ),
    Scenario(
        name="g",
        words="more places at once: more tokens, and one intent's answers too slow",
        target=UNEQUAL,
        replica=engine(NOISY, boot_cap=16),
        arrivals=all_day,
        reference=STEEP_REFERENCE,
        life_s=2.5 * HOUR_S,
        stationary=True,
        guarded=True,
    ),
    Scenario(
        name="h",
        words="shorter answers: U up at once; who was cut short does not come back (half of U)",
        target=ANSWERS,
        replica=replace(engine(STEEP, boot_cap=16), capacity_answer=512),
        arrivals=long_answers,
        reference=STEEP_REFERENCE,
        life_s=2.5 * HOUR_S,
        knob="answer_tokens",
        stationary=True,
        business=0.5,
    ),
    replace(
        C,
        name="i",
        words="as c; TPOT may be 70 ms until noon, and 38 ms from then on",
        target=LOOSE,
        life_s=5 * HOUR_S,
        moments=(2 * HOUR_S,),
        scored_from=(1.25 * HOUR_S, 2 * HOUR_S + TWO_TRIALS_S),
        declares=((2 * HOUR_S, STRICT),),
        stationary=False,
    ),
    Scenario(
        name="j",
        words="every knob null",
        target=TWO_KNOBS,
        replica=engine(FLAT),
        arrivals=nothing_binds,
        reference=FLAT_REFERENCE,
        life_s=2 * HOUR_S,
        stationary=True,
        nothing_to_gain=True,
    ),
)
