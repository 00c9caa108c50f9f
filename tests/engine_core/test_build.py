"""From settings to a running engine, and how the highest step token budget is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.embedded import calibrate
from engine.embedded.build import Capacity, build
from engine.embedded.model import Model
from engine.generation import Boundary, Limits, StepRecord
from engine.settings import EngineSettings
from signals.errors import Unavailable
from tests.engine_core.conftest import Loaded
from tests.engine_core.driving import request
from tests.engine_core.test_worker import Listener


def test_an_engine_is_built_calibrated_and_answers(loaded: Loaded) -> None:
    settings = EngineSettings(
        context=256, kv_blocks=64, capacity_active=4, capacity_budget=64, calibration_repeats=1
    )
    asked: list[Capacity] = []
    records: list[StepRecord] = []
    said: list[str] = []

    def boundary(capacity: Capacity) -> Boundary:
        asked.append(capacity)
        return lambda load: Limits(active_cap=4, step_token_budget=capacity.step_token_budget)

    engine = build(settings, boundary=boundary, on_step=records.append, say=said.append)
    assert asked == [engine.capacity]
    assert engine.capacity == Capacity(
        active_cap=4, step_token_budget=64, context=256, kv_blocks=64
    )
    assert [(point.decode, point.prefill) for point in engine.curve] == [
        (1, 0),
        (2, 0),
        (4, 0),
        (0, 64),
    ]
    assert all(point.step_us > 0 for point in engine.curve)
    assert engine.fingerprint.startswith("smollm2-135m-instruct/b179c9523d0e/bf16-")
    assert engine.fingerprint.endswith(engine.numeric_class)
    assert (engine.kv.blocks, engine.kv.block_tokens) == (64, 16)
    assert (engine.kv.layers, engine.kv.kv_heads, engine.kv.head_dim) == (30, 3, 64)
    assert said

    engine.worker.start()
    listener = Listener()
    prompt = engine.tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    engine.worker.submit(request("a", prompt, max_tokens=20, temperature=0.0), listener)
    assert listener.last().finish == "stop"
    assert "".join(output.text for output in listener.outputs) == "The capital of France is Paris."
    engine.worker.close()
    assert engine.worker.failure is None
    assert sum(record.output_tokens.get("batch", 0) for record in records) == len(listener.outputs)


class Slowing:
    """A clock by which the n-th measured step takes ``cost(n)`` seconds."""

    def __init__(self, cost: Callable[[int], float]) -> None:
        self._cost, self._reads, self._now_s = cost, 0, 0.0

    def __call__(self) -> float:
        self._reads += 1
        if self._reads % 2 == 0:
            self._now_s += self._cost(self._reads // 2 - 1)
        return self._now_s


def test_the_budget_is_the_largest_chunk_within_the_step_limit(model: Model) -> None:
    times = [0.1, 0.9, 0.1, 0.4, 0.4, 0.29, 0.31, 0.32, 0.31]
    points, budget = calibrate.measure_prefill(
        model, capacity=512, limit_ms=300, repeats=3, clock=Slowing(lambda n: times[n])
    )
    assert budget == 96, "one of its three steps was fast enough, none of the next size's"
    assert [(point.prefill, point.step_us) for point in points] == [
        (64, 100_000),
        (96, 400_000),
        (128, 310_000),
    ]


def test_the_budget_never_exceeds_its_capacity_and_never_falls_below_the_smallest_chunk(
    model: Model,
) -> None:
    def found(cost_s: float) -> int:
        clock = Slowing(lambda n: cost_s)
        return calibrate.measure_prefill(model, capacity=100, limit_ms=300, repeats=1, clock=clock)[
            1
        ]

    assert found(0.001) == 100
    assert found(9.0) == 64


def test_a_point_of_the_curve_is_a_median(model: Model) -> None:
    times = [0.01, 5.0, 0.02]
    points = calibrate.measure_decode(
        model, capacity=1, repeats=3, clock=Slowing(lambda n: times[n])
    )
    assert [point.step_us for point in points] == [20_000]


def test_without_weights_the_error_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="trimtab models fetch"):
        build(
            EngineSettings(cache=tmp_path),
            boundary=lambda capacity: lambda load: Limits(active_cap=1, step_token_budget=64),
            on_step=lambda record: None,
        )


def test_a_pool_smaller_than_one_context_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than context = 2048"):
        EngineSettings(kv_blocks=100)
