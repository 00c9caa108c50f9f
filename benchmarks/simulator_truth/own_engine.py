"""The embedded engine: calibrated on one load of a recording, scored on the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.simulator_truth import fitting
from benchmarks.simulator_truth.edge import Band, band
from benchmarks.simulator_truth.engines import Judged, simulated
from benchmarks.simulator_truth.recording import FITTED_RATE_PER_S, Recorded, Recording
from benchmarks.simulator_truth.refining import refined
from benchmarks.simulator_truth.scoring import Score, scores
from engine.settings import BLOCK_TOKENS, EngineSettings
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes


def embedded(recording: Recording, *, tries: int, seed: int) -> Judged:
    """Fitted on the middle load, scored on all requests of the lower and the higher one."""
    run = recording.run(FITTED_RATE_PER_S)
    spec = partial(embedded_spec, recording)
    predict = partial(simulated, run.requests, spec, seed)
    start = fitting.from_moments(run.requests, [(s.at_s, s.length_s, s.steps) for s in run.seconds])
    best = refined(start, run.requests, predict, tries=tries)
    found: list[Score] = []
    bands: list[Band] = []
    for other in recording.runs:
        if other is not run:
            again = partial(simulated, other.requests, spec, seed)
            found += scores(_name(other), other.requests, again(best))
            bands.append(band(_name(other), other.requests, again, best))
    return Judged(
        fitted_on=f"{_name(run)}, {_span(recording.runs)}",
        calibration=best,
        fitted=scores(_name(run), run.requests, predict(best)),
        predicted=found,
        bands=bands,
    )


def embedded_spec(recording: Recording, step_times: StepTimes) -> ReplicaSpec:
    """The engine as it was started."""
    return ReplicaSpec(
        step_times=step_times,
        kv_blocks=EngineSettings().kv_blocks,
        block_tokens=BLOCK_TOKENS,
        capacity_active=recording.active_cap,
        capacity_budget=recording.step_token_budget,
    )


def _name(run: Recorded) -> str:
    return f"embedded engine, {run.per_s:g} requests a second"


def _span(runs: Sequence[Recorded]) -> str:
    return f"{sum(len(run.requests) for run in runs)} requests recorded in all"
