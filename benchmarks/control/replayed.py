"""Scenarios on public traces, read below the folder that TRIMTAB_DATA names.

Each trace's requests are given intents by their length (traces know none): what gets a long answer
is batch work, the rest is interactive. Repeats of an hour, and thinning by the seed, are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain

import numpy as np

from benchmarks import traces
from benchmarks.control.processes import HOUR_S, JOBS, STEEP
from benchmarks.control.scenario import ADAPTS_S, Scenario
from controller.config.targets import TargetSettings
from engine.simulated.arrivals import azure, mooncake, servegen
from engine.simulated.arrivals.kinds import LIVE, always, by_output_tokens
from engine.simulated.arrivals.poisson import poisson
from engine.simulated.arrivals.shaping import later, merged, thinned, window
from engine.simulated.offered import Arrivals
from engine.simulated.spec import PREFIX_RETENTION, ReplicaSpec
from engine.simulated.step_times import StepTimes

QUICK = StepTimes(base_us=12_000, per_decode_us=250, per_prefill_us=15, noise_sd=0.05)
LONG_PROMPTS = StepTimes(base_us=10_000, per_decode_us=200, per_prefill_us=12, noise_sd=0.05)
KEPT = 0.9
"""The share of a trace's requests that a seed keeps."""
HOURS = ((3, 9), (3, 15), (10, 6), (10, 9), (10, 12))
"""(day, hour) of ServeGen: two of a steady day, three of one with an hour of silence and a dip."""
SERVEGEN_SHARE = 0.1
CAPS = (8, 16, 32, 64)
RETENTIONS = (16, 32, 64, 128, 256, 512, 1024)


@lru_cache(maxsize=4)
def _lines(*parts: str) -> tuple[str, ...]:
    return tuple(traces.lines(*parts))


@lru_cache(maxsize=1)
def _served() -> tuple[tuple[servegen.Rate, ...], tuple[servegen.Span, ...]]:
    place = ("servegen", "language", "m-small")
    return (
        servegen.read_rates(_lines(*place, "chunk-12-trace.csv")),
        servegen.read_lengths(traces.text(*place, "chunk-12-dataset.json")),
    )


def repeated(hour: Callable[[], Arrivals], times: int) -> Arrivals:
    """An hour again and again."""
    return chain.from_iterable(
        later(window(hour(), 0.0, HOUR_S), number * HOUR_S) for number in range(times)
    )


def azure_hours(rng: np.random.Generator) -> Arrivals:
    """See (a)."""
    rows = _lines("azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    assign = by_output_tokens(above=200)
    hours = repeated(lambda: azure.conversations(rows, assign), 3)
    return thinned(hours, lambda at_s: KEPT, rng)


def servegen_hours(rng: np.random.Generator) -> Arrivals:
    """See (d)."""
    rates, spans = _served()
    *each, last = rng.spawn(len(HOURS) + 1)
    sampled = []
    for number, ((day, hour), one) in enumerate(zip(HOURS, each, strict=True)):
        from_s = (24 * day + hour) * HOUR_S
        live = servegen.workload(
            rates,
            spans,
            always(LIVE),
            one,
            from_s=from_s,
            to_s=from_s + HOUR_S,
            rate_scale=SERVEGEN_SHARE,
        )
        sampled.append(later(live, number * HOUR_S))
    return merged(chain.from_iterable(sampled), poisson(JOBS, last))


def mooncake_hours(rng: np.random.Generator) -> Arrivals:
    """See (e)."""
    rows = _lines("mooncake", "traces", "conversation_trace.jsonl")
    assign = by_output_tokens(above=400)
    one, other = rng.spawn(2)
    hours = repeated(lambda: mooncake.conversations(rows, assign, one), 3)
    return thinned(hours, lambda at_s: KEPT, other)


def _target(knob: str, ladder: tuple[int, ...], *, ttft_ms: int, tpot_ms: int) -> TargetSettings:
    slo = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "attainment": 0.95}
    return TargetSettings.model_validate(
        {
            "maximize": "batch.tokens_per_s",
            "intents": {
                "live": {"class": "interactive", "slo": slo},
                "batch": {"class": "batch", "slo": {"tpot_ms": 200, "attainment": 0.9}},
            },
            "knobs": {knob: {"mode": "auto", "ladder": list(ladder)}},
        }
    )


REPLAYED = (
    Scenario(
        name="a",
        words="the Azure conversation hour, three times (Azure LLM inference dataset 2023, CC BY)",
        target=_target("active_cap", CAPS, ttft_ms=1000, tpot_ms=40),
        replica=ReplicaSpec(step_times=QUICK, capacity_active=64, capacity_budget=512),
        arrivals=azure_hours,
        reference=64 / (QUICK.step_us(decode=64, prefill=320, context=0) / 1e6),
        life_s=3 * HOUR_S,
        stationary=True,
    ),
    Scenario(
        name="d",
        words="five sampled hours of two ServeGen days, beside jobs (ServeGen, Apache-2.0)",
        target=_target("active_cap", CAPS, ttft_ms=500, tpot_ms=45),
        replica=ReplicaSpec(step_times=STEEP, capacity_active=64, capacity_budget=256),
        arrivals=servegen_hours,
        reference=64 / (STEEP.step_us(decode=64, prefill=0, context=0) / 1e6),
        life_s=len(HOURS) * HOUR_S,
        moments=tuple(number * HOUR_S for number in range(1, len(HOURS))),
        scored_from=(ADAPTS_S, ADAPTS_S, *(number * HOUR_S for number in range(2, len(HOURS)))),
    ),
    Scenario(
        name="e",
        words="Mooncake's conversations, which share prefixes (Mooncake, Apache-2.0), three times",
        target=_target(PREFIX_RETENTION, RETENTIONS, ttft_ms=3000, tpot_ms=45),
        replica=ReplicaSpec(
            step_times=LONG_PROMPTS,
            kv_blocks=49_152,
            capacity_active=64,
            capacity_budget=2048,
            capacity_retention=1024,
            boot_retention=1024,
        ),
        arrivals=mooncake_hours,
        reference=64 / (LONG_PROMPTS.step_us(decode=64, prefill=1984, context=0) / 1e6),
        life_s=3 * HOUR_S,
        knob=PREFIX_RETENTION,
        stationary=True,
    ),
)
