"""How much faster than real time the simulated engine is, on every trace and process there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import traces
from benchmarks.figures import say
from engine.simulated.arrivals import azure, mooncake, servegen
from engine.simulated.arrivals.change import changed
from engine.simulated.arrivals.flood import backlog, batch
from engine.simulated.arrivals.kinds import LIVE, always, by_share
from engine.simulated.arrivals.lengths import LogNormal
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged, rate_scaled, window
from engine.simulated.arrivals.waves import phases
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Arrivals
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from signals.events import MICROS
from signals.settings import Slo

Workload = Callable[[np.random.Generator], Arrivals]
CHATS = Load(kind=LIVE, per_s=5.0, load_sd=0.3)
LONGER = LogNormal(prompt_median_tokens=800, prompt_sd=0.8, output_median_tokens=120, output_sd=0.7)


def azure_hour(rng: np.random.Generator) -> Arrivals:
    """All of it, half of the requests batch."""
    rows = traces.lines("azure_llm_2023", "AzureLLMInferenceTrace_conv.csv")
    return azure.conversations(rows, by_share(0.5, rng))


def mooncake_hour(rng: np.random.Generator) -> Arrivals:
    """A fifth of it: the prompts have 12,000 tokens on average."""
    rows = traces.lines("mooncake", "traces", "conversation_trace.jsonl")
    return rate_scaled(mooncake.conversations(rows, always(LIVE), rng), 0.2, rng)


def servegen_noon(rng: np.random.Generator) -> Arrivals:
    """An hour of the first noon at a quarter of its rate."""
    parts = ("servegen", "language", "m-small")
    rates = servegen.read_rates(traces.lines(*parts, "chunk-12-trace.csv"))
    spans = servegen.read_lengths(traces.text(*parts, "chunk-12-dataset.json"))
    noon_s, hour_s = 12 * 3600, 3600
    return servegen.workload(
        rates, spans, always(LIVE), rng, from_s=noon_s, to_s=noon_s + hour_s, rate_scale=0.25
    )


WORKLOADS: Mapping[str, Workload] = {
    "azure": azure_hour,
    "mooncake": mooncake_hour,
    "servegen": servegen_noon,
    "poisson": lambda rng: poisson(CHATS, rng),
    "phases": lambda rng: merged(
        phases(CHATS, rng, on_s=80, off_s=80), backlog(batch(2.0), rng, jobs=2000)
    ),
    "change": lambda rng: changed(
        poisson(CHATS, rng),
        poisson(Load(kind=LIVE, per_s=3.0, lengths=LONGER), rng),
        at_s=1800.0,
    ),
}


def measure(
    step_times: StepTimes, *, simulated_s: int, seed: int
) -> tuple[float, dict[str, dict[str, Any]]]:
    """The least of simulated over real seconds, and each workload's own figures."""
    told = {
        name: _one(name, workload, step_times, simulated_s, seed)
        for name, workload in WORKLOADS.items()
    }
    return min(figures["times_real_time"] for figures in told.values()), told


def _one(
    name: str, workload: Workload, step_times: StepTimes, simulated_s: int, seed: int
) -> dict[str, Any]:
    spec = ReplicaSpec(step_times=step_times, capacity_active=256, capacity_budget=2048)
    # Read before the clock runs: the engine is measured, not the reader.
    arrivals = list(window(workload(np.random.default_rng(seed)), 0.0, simulated_s))
    fleet = Fleet(
        replicas={"r0": spec},
        arrivals=iter(arrivals),
        slos={intent: Slo(ttft_ms=1000) for intent in ("live", "batch")},
        seed=seed,
    )
    began_s = time.perf_counter()
    fleet.run(simulated_s * MICROS)
    took_s = time.perf_counter() - began_s
    rows = fleet.requests(-1, simulated_s * MICROS)
    figures = {
        "requests": len(rows),
        "finished": sum(row.finished_us is not None for row in rows),
        "took_s": round(took_s, 2),
        "times_real_time": round(simulated_s / took_s),
    }
    say(f"{name:<10} " + ", ".join(f"{key} {value:,}" for key, value in figures.items()))
    return figures
