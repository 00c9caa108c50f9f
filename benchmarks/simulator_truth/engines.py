"""The real engines: calibrated on one part of what was logged, scored on another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.simulator_truth import burstgpt, fitting, llmservingsim
from benchmarks.simulator_truth.edge import Band, band
from benchmarks.simulator_truth.measured import Request
from benchmarks.simulator_truth.predicting import predict
from benchmarks.simulator_truth.refining import Calibration, refined
from benchmarks.simulator_truth.scoring import Score, scores
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes

ROOMY_BLOCKS = 100_000
"""BurstGPT's engine never used half of its memory: the pool does not bind."""


class Judged(Struct, frozen=True, kw_only=True):
    """One engine: what was fitted, on what, and the scores of both parts.

    ``bands``: how the predicted median TTFT moves with the step times, where whole runs were
    predicted.
    """

    fitted_on: str
    calibration: Calibration
    fitted: list[Score]
    predicted: list[Score]
    bands: list[Band] = []


def rtx_4090(*, tries: int, seed: int) -> Judged:
    """Fitted on the first half of the run's time, scored on requests whose first token came later.

    The whole run is simulated either way: what waits at half-time is part of the second half.
    """
    run = llmservingsim.run()
    half_s = run.samples[-1].at_s / 2
    early = [request.first_s <= half_s for request in run.requests]

    def known_by_half(requests: Sequence[Request]) -> list[Request]:
        """First tokens by then; what is not over by then has no TPOT yet, and no end."""
        return [
            request
            if truth.last_s <= half_s
            else replace(request, output_tokens=1, last_s=max(request.first_s, half_s))
            for request, truth, is_early in zip(requests, run.requests, early, strict=True)
            if is_early
        ]

    simulate = partial(simulated, run.requests, llmservingsim_spec, seed)
    measured = known_by_half(run.requests)
    start = fitting.step_times(measured, [s for s in run.samples if s.at_s <= half_s])
    best = refined(start, measured, lambda c: known_by_half(simulate(c)), tries=tries)
    whole = simulate(best)
    late = [
        pair
        for pair, is_early in zip(zip(run.requests, whole, strict=True), early, strict=True)
        if not is_early
    ]
    return Judged(
        fitted_on=f"{run.name}: its first {half_s:.0f} s",
        calibration=best,
        fitted=scores(f"{run.name}, 1st half", measured, known_by_half(whole)),
        predicted=scores(f"{run.name}, 2nd half", *map(list, zip(*late, strict=True))),
    )


def burstgpt_vllm(*, tries: int, seed: int) -> Judged:
    """Fitted on one load, scored on all requests of the others."""
    run = burstgpt.run(burstgpt.CALIBRATED_LOAD)
    start = fitting.step_times(run.requests, run.samples)
    simulate = partial(simulated, run.requests, burstgpt_spec, seed)
    best = refined(start, run.requests, simulate, tries=tries)
    found: list[Score] = []
    bands: list[Band] = []
    for other in map(burstgpt.run, burstgpt.OTHER_LOADS):
        load = burstgpt.as_in(other, run)
        found += scores(other.name, other.requests, simulated(load, burstgpt_spec, seed, best))
        again = partial(simulated, load, burstgpt_spec, seed)
        bands.append(band(other.name, other.requests, again, best))
    entangled = fitting.entangled(run.requests, run.samples)
    full = burstgpt.tokens_per_step(run.samples)
    return Judged(
        fitted_on=f"{run.name} ({full:.0f} tokens a full step, r {entangled:.2f})",
        calibration=best,
        fitted=scores(run.name, run.requests, simulate(best)),
        predicted=found,
        bands=bands,
    )


def llmservingsim_spec(step_times: StepTimes) -> ReplicaSpec:
    """The engine as it was started."""
    return ReplicaSpec(
        step_times=step_times,
        kv_blocks=llmservingsim.KV_BLOCKS,
        block_tokens=llmservingsim.BLOCK_TOKENS,
        capacity_active=llmservingsim.MAX_RUNNING,
        capacity_budget=llmservingsim.MAX_STEP_TOKENS,
    )


def burstgpt_spec(step_times: StepTimes) -> ReplicaSpec:
    """The engine as its log shows it."""
    return ReplicaSpec(
        step_times=step_times,
        kv_blocks=ROOMY_BLOCKS,
        capacity_active=burstgpt.MAX_RUNNING,
        capacity_budget=burstgpt.MAX_STEP_TOKENS,
    )


def simulated(
    load: Sequence[Request],
    spec: Callable[[StepTimes], ReplicaSpec],
    seed: int,
    calibration: Calibration,
) -> list[Request]:
    """A load's requests as clients of the calibrated engine would see them."""
    predicted = predict(load, spec(calibration.step_times), seed=seed)
    return calibration.seen_by_clients(predicted)
