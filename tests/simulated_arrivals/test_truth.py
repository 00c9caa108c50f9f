"""The benchmark of the simulator's truth: it reads logs right, and finds what made them."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import traces
from benchmarks.simulator_truth import burstgpt, fitting, llmservingsim
from benchmarks.simulator_truth.__main__ import main
from benchmarks.simulator_truth.edge import band
from benchmarks.simulator_truth.measured import Request, Sample
from benchmarks.simulator_truth.own_engine import embedded
from benchmarks.simulator_truth.predicting import predict
from benchmarks.simulator_truth.recording import (
    RATES_PER_S,
    Recorded,
    Recording,
    Second,
    read,
    recorded,
)
from benchmarks.simulator_truth.refining import Calibration, refined
from benchmarks.simulator_truth.scoring import Score, scores, table, worst
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from signals.errors import Rejected, Unavailable
from signals.events import StepMoments
from signals.features.model import RequestRow, SecondRow
from tests.judge import builders

REQUESTS = [
    (
        '{"request_id": "b", "input_toks": 30, "output_toks": 5, "arrival_time": 1787267981.0,'
        ' "queued_ts": 101.0, "first_token_ts": 101.5, "last_token_ts": 102.5}'
    ),
    (
        '{"request_id": "a", "input_toks": 20, "output_toks": 1, "arrival_time": 1787267980.9,'
        ' "queued_ts": 100.0, "first_token_ts": 100.25, "last_token_ts": 100.5}'
    ),
]


def test_the_monotonic_clock_alone_tells_when_a_request_came_and_went() -> None:
    first, second = llmservingsim.requests(REQUESTS)
    assert (first.id, first.arrival_s, first.ttft_s) == ("a", 0.0, 0.25)
    assert (second.id, second.arrival_s, second.ttft_s, second.tpot_s) == ("b", 1.0, 0.5, 0.25)


def test_a_time_that_is_missing_is_refused_with_its_line_and_field() -> None:
    broken = REQUESTS[1].replace("first_token_ts", "other")
    with pytest.raises(Rejected, match="line 2: first_token_ts None"):
        llmservingsim.requests([REQUESTS[0], broken])


def test_output_tokens_are_worked_out_from_the_engines_own_rates() -> None:
    records = {
        "0": {"record_time": 14.0, "total_chunk_time": 4.0, "first_chunk_time": 1.0, "in_len": 50},
        "1": {"record_time": 12.5, "total_chunk_time": 1.5, "first_chunk_time": 1.5, "in_len": 30},
    }
    rows = ["timestamp,prompt_throughput,generation_throughput,num_running,num_pending"]
    # 100 tokens a second for each of one, then two, then one running.
    rows += ["10.0,0,0,0,0", "12.0,20,100,1,0", "13.0,0,200,2,0", "14.0,0,100,1,0"]
    run = burstgpt.in_tokens("a", burstgpt.requests(records, 10.0), burstgpt.samples(rows, 10.0))
    assert {r.id: r.output_tokens for r in run.requests} == {"0": 301, "1": 1}
    # 40 prompt tokens in the engine's log, 80 in the records.
    assert {r.id: r.prompt_tokens for r in run.requests} == {"0": 25, "1": 15}


def test_a_full_step_shows_its_budget_only_while_requests_wait_below_the_cap() -> None:
    full = Sample(
        at_s=1.0, length_s=0.5, running=100, waiting=9, prompt_tokens=400.0, output_tokens=100.0
    )
    capped, idle = replace(full, running=256), replace(full, waiting=0, prompt_tokens=1.0)
    assert burstgpt.tokens_per_step([full, capped, idle]) == 500.0


def load(seed: int, per_s: float) -> list[Request]:
    rng = np.random.default_rng(seed)
    moments = np.cumsum(rng.exponential(1 / per_s, 80)).tolist()
    lengths = rng.integers(20, 400, size=(80, 2)).tolist()
    return [
        Request(
            id=str(n),
            arrival_s=at_s,
            first_s=at_s,
            last_s=at_s,
            prompt_tokens=prompt,
            output_tokens=output,
        )
        for n, (at_s, (prompt, output)) in enumerate(zip(moments, lengths, strict=True))
    ]


def simulated(requests: list[Request], calibration: Calibration) -> list[Request]:
    spec = ReplicaSpec(step_times=calibration.step_times, capacity_active=32, capacity_budget=256)
    return calibration.seen_by_clients(predict(requests, spec, seed=1))


SECONDS = [
    Second(
        at_s=float(at),
        length_s=1.0,
        steps=StepMoments(n=20, b=20 * b, f=f, t=20 * 9_500 + 20 * 320 * b + 62 * f),
    )
    for at, (b, f) in enumerate([(1, 0), (4, 900), (9, 100), (2, 2000)], 1)
]
"""Step sums that come near what made the requests, and are not it."""


def row(arrival_us: int, output_tokens: int) -> RequestRow:
    return replace(
        builders.request(0.0),
        arrival_us=arrival_us,
        ttft_us=250_000,
        finished_us=arrival_us + 900_000,
        output_tokens=output_tokens,
    )


def tick(from_us: int, to_us: int) -> SecondRow:
    return replace(builders.second(0.0, tokens={}, waiting={}), from_us=from_us, to_us=to_us)


TRUTH = Calibration(
    step_times=StepTimes(base_us=9_000, per_decode_us=300, per_prefill_us=60, per_context_us=0.1),
    front_s=0.02,
)


def test_what_made_a_log_is_found_well_enough_to_predict_another_load() -> None:
    seed = 11
    calm, busy = load(seed, per_s=3.0), load(seed + 1, per_s=6.0)
    measured = simulated(calm, TRUTH)
    start = TRUTH.step_times.slowed(1.2)
    found = refined(start, measured, lambda guess: simulated(calm, guess), tries=100)
    told = scores("busy", simulated(busy, TRUTH), simulated(busy, found))
    assert max(score.error for score in told) < 0.1, f"seed {seed}: {table(told)}"
    unfitted = scores(
        "busy", simulated(busy, TRUTH), simulated(busy, Calibration(step_times=start))
    )
    assert worst(unfitted, "tpot", "median") > 0.15


def test_least_squares_find_the_costs_of_intervals_without_noise() -> None:
    rng, costs = np.random.default_rng(4), TRUTH.step_times
    samples = [Sample(at_s=0, length_s=0, running=4, waiting=0, prompt_tokens=0, output_tokens=0)]
    for running in rng.integers(2, 64, size=60).tolist():
        steps, prompt = 20, int(rng.integers(0, 500))
        mean = (samples[-1].running + running) / 2
        length_us = steps * (costs.base_us + costs.per_decode_us * mean)
        length_us += prompt * costs.per_prefill_us
        samples.append(
            Sample(
                at_s=samples[-1].at_s + length_us / 1e6,
                length_s=length_us / 1e6,
                running=running,
                waiting=0,
                prompt_tokens=prompt,
                output_tokens=steps * mean,
            )
        )
    found = fitting.step_times([], samples)
    assert found.base_us == pytest.approx(9_000)
    assert found.per_decode_us == pytest.approx(300)
    assert found.per_prefill_us == pytest.approx(60)


def test_our_own_engine_is_fitted_on_one_load_and_predicted_on_the_others() -> None:
    def run(seed: int, per_s: float) -> Recorded:
        requests = simulated(load(seed, per_s), TRUTH)
        return Recorded(per_s=per_s, requests=requests, seconds=SECONDS)

    low, fitted, high = RATES_PER_S
    recording = Recording(
        hardware="none",
        load_average=[0.0],
        seed=1,
        active_cap=32,
        step_token_budget=256,
        runs=[run(21, low), run(22, fitted), run(23, high)],
    )
    assert msgspec.json.decode(msgspec.json.encode(recording), type=Recording) == recording
    judged = embedded(recording, tries=100, seed=1)
    assert {score.run for score in judged.predicted} == {
        f"embedded engine, {per_s:g} requests a second" for per_s in (low, high)
    }
    assert max(score.error for score in judged.predicted) < 0.15, table(judged.predicted)
    assert [band.run for band in judged.bands] == sorted({s.run for s in judged.predicted})


def test_a_recording_has_the_engines_own_times_from_the_first_arrival_on(tmp_path: Path) -> None:
    rows = [row(4_000_000, 100), row(3_000_000, 50), row(1_000_000, 10)]
    ticks = [tick(3_000_000, 4_000_000), tick(2_000_000, 3_000_000)]
    found = recorded(2.0, rows, ticks, from_us=2_000_000)
    assert [(one.arrival_s, one.first_s, one.output_tokens) for one in found.requests] == [
        (0.0, 0.25, 50),
        (1.0, 1.25, 100),
    ]
    assert [(second.at_s, second.length_s) for second in found.seconds] == [(1.0, 1.0)]
    with pytest.raises(Unavailable, match="no request of 2 a second"):
        recorded(2.0, rows, ticks, from_us=9_000_000)
    path = tmp_path / "log"
    path.write_text("{}")
    with pytest.raises(Unavailable, match="holds no recording"):
        read(path)


def test_a_queue_amplifies_what_steps_are_off_and_an_idle_engine_does_not() -> None:
    def bands(seed: int, per_s: float) -> float:
        offered = load(seed, per_s)
        again = partial(simulated, offered)
        return band("a", again(TRUTH), again, TRUTH).amplification

    assert bands(31, 0.2) < 1.2
    assert bands(31, 20.0) > 1.5


def test_a_run_in_which_context_grows_with_the_batch_cannot_tell_what_each_costs() -> None:
    def samples(batches: list[int]) -> list[Sample]:
        return [
            Sample(
                at_s=float(at),
                length_s=1.0,
                running=batch,
                waiting=0,
                prompt_tokens=0,
                output_tokens=20 * batch,
            )
            for at, batch in enumerate(batches, 1)
        ]

    requests = [
        replace(one, first_s=one.arrival_s + 1, last_s=one.arrival_s + 20, output_tokens=100)
        for one in load(41, per_s=4.0)
    ]
    rising = [max(2, 4 * at) for at in range(20)]
    assert fitting.entangled(requests, samples(rising)) > 0.8
    assert fitting.entangled(requests, samples(rising[::-1])) < 0


def test_the_worst_run_is_what_counts() -> None:
    near, far = (
        Score(run=run, latency="ttft", quantile="p99", measured_ms=100.0, predicted_ms=predicted_ms)
        for run, predicted_ms in (("a", 95.0), ("b", 130.0))
    )
    assert worst([near, far], "ttft", "p99") == pytest.approx(0.3)


def test_without_the_data_it_says_which_variable_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(traces.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "argv", ["benchmarks.simulator_truth"])
    with pytest.raises(Unavailable, match="TRIMTAB_DATA"):
        traces.folder()
    assert main() == 1
    assert "not measured: TRIMTAB_DATA is ''" in capsys.readouterr().out
