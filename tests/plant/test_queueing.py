"""The prediction beside a queue that is simulated step by step, at the tolerance written here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.queue_model import LIVE, QueueModel, World
from controller.plant.queueing import Load, predict
from controller.plant.step_curve import StepCurve
from signals.errors import Rejected
from signals.events import MICROS
from signals.settings import Slo

SEED, WARM_S, RUN_S = 3, 20, 2400
CURVE = StepCurve(
    base_us=18_100.0, per_decode_us=1290.0, per_prefill_us=0.0, steps=1000, residual=0.0
)
CHAT = Slo(ttft_ms=1000, tpot_ms=36)
CV2 = (33**2 - 1) / 12 / 24**2
"""Of the simulated chats' lengths: 8 to 40 tokens, all equally likely."""


def simulated(chats_per_s: float, *, flood: int) -> tuple[list[float], list[float]]:
    """TTFT and TPOT in ms of every chat of one path."""
    world = World(name="steady", chats_per_s=chats_per_s, load_sd=0.0, flood=flood)
    engine = QueueModel(world, SEED)
    engine.run(RUN_S * MICROS)
    done = [
        (one.first_us - one.arrival_us, (one.finished_us - one.first_us) / (one.tokens - 1))
        for one in engine.requests
        if one.intent == LIVE
        and one.arrival_us > WARM_S * MICROS
        and one.first_us is not None
        and one.finished_us is not None
    ]
    return [ttft / 1000 for ttft, _ in done], [tpot / 1000 for _, tpot in done]


def load(chats_per_s: float, **changes: float) -> Load:
    return Load(arrivals_per_s=chats_per_s, output_tokens=24.0, output_cv2=CV2, **changes)


@pytest.mark.parametrize("chats_per_s", [2.0, 10.0, 15.0])
def test_alone_on_the_engine(chats_per_s: float) -> None:
    """Up to 87 % of what it can do: medians within 20 %, p95 within 25 %, attainment 8 points."""
    ttft, tpot = simulated(chats_per_s, flood=0)
    found = predict(CURVE, cap=16, load=load(chats_per_s))
    assert found.mean_tpot_ms() == pytest.approx(np.mean(tpot), rel=0.03)
    assert found.tpot_ms(0.95) == pytest.approx(np.percentile(tpot, 95), rel=0.05)
    assert found.ttft_ms(0.5) == pytest.approx(np.median(ttft), rel=0.20)
    assert found.ttft_ms(0.95) == pytest.approx(np.percentile(ttft, 95), rel=0.25)
    met = np.mean((np.array(ttft) <= 1000) & (np.array(tpot) <= 36))
    assert found.attainment(CHAT) == pytest.approx(met, abs=0.08)


@pytest.mark.parametrize("chats_per_s", [2.0, 10.0, 15.0])
def test_beside_work_that_fills_every_slot(chats_per_s: float) -> None:
    """Medians within 25 %, p95 within 35 %: equal jobs end in bunches, which Poisson has not."""
    ttft, tpot = simulated(chats_per_s, flood=64)
    found = predict(CURVE, cap=16, load=load(chats_per_s, backlog_tokens=16.0))
    assert found.mean_tpot_ms() == pytest.approx(np.mean(tpot), rel=0.01)
    assert found.ttft_ms(0.5) == pytest.approx(np.median(ttft), rel=0.25)
    assert found.ttft_ms(0.95) == pytest.approx(np.percentile(ttft, 95), rel=0.35)
    met = np.mean(np.array(ttft) <= 1000)
    assert found.attainment(Slo(ttft_ms=1000, tpot_ms=50)) == pytest.approx(met, abs=0.03)


@given(st.floats(0, 12), st.floats(0.1, 3), st.integers(2, 64), st.floats(0, 4))
def test_more_load_is_never_better(
    chats_per_s: float, more: float, cap: int, prompt: float
) -> None:
    low, high = (
        predict(CURVE, cap=cap, load=load(rate, prompt_tokens=prompt))
        for rate in (chats_per_s, chats_per_s + more)
    )
    assert high.attainment(CHAT) <= low.attainment(CHAT) + 1e-9
    assert high.saturated or high.ttft_ms(0.95) >= low.ttft_ms(0.95) * 0.999
    assert high.mean_tpot_ms() >= low.mean_tpot_ms() - 1e-9
    assert sum(high.found) == pytest.approx(1.0)


def test_more_than_can_be_done_has_no_answer_in_time() -> None:
    for backlog in ({}, {"backlog_tokens": 16.0}):
        found = predict(CURVE, cap=16, load=load(20.0, **backlog))
        assert found.saturated
        assert found.attainment(CHAT) == 0.0
        assert found.ttft_ms(0.5) == math.inf
        assert found.tokens_per_s == pytest.approx(16 / 0.03874, rel=0.01)


def test_a_cap_trades_waiting_for_slower_steps() -> None:
    small, large = (predict(CURVE, cap=cap, load=load(8.0)) for cap in (8, 64))
    assert small.ttft_ms(0.95) > large.ttft_ms(0.95)
    assert small.tpot_ms(0.99) < large.tpot_ms(0.99)
    assert small.waits > 0.1 > 1e-6 > large.waits


def test_the_prompt_is_in_the_first_step_and_an_end_to_end_limit_counts_the_rest() -> None:
    costly = StepCurve(
        base_us=18_100.0, per_decode_us=1290.0, per_prefill_us=700.0, steps=1000, residual=0.0
    )
    short, long = (
        predict(costly, cap=16, load=load(1.0, prompt_tokens=tokens)) for tokens in (24.0, 240.0)
    )
    assert long.ttft_ms(0.5) - short.ttft_ms(0.5) > 0.7 * 200
    first, rest = short.ttft_ms(0.5), 23 * short.mean_tpot_ms()
    late, soon = (
        short.attainment(Slo(e2e_ms=round(share * (first + rest))), output_tokens=24)
        for share in (1.5, 0.5)
    )
    assert late > 0.9 > 0.1 > soon


def test_a_correction_multiplies_every_time() -> None:
    found = predict(CURVE, cap=16, load=load(10.0))
    twice = Slo(ttft_ms=2000, tpot_ms=72)
    assert found.attainment(twice, factor=2.0) == pytest.approx(found.attainment(CHAT))


@pytest.mark.parametrize(
    ("cap", "wrong", "field"),
    [
        (0, {}, "cap"),
        (5000, {}, "cap"),
        (8, {"arrivals_per_s": -1.0}, "arrivals_per_s"),
        (8, {"arrivals_per_s": math.nan}, "arrivals_per_s"),
        (8, {"output_tokens": 0.0}, "output_tokens"),
        (8, {"prompt_tokens": math.inf}, "prompt_tokens"),
    ],
)
def test_what_is_no_load_is_refused_by_name(cap: int, wrong: dict[str, float], field: str) -> None:
    figures = {"arrivals_per_s": 1.0, "output_tokens": 10.0, **wrong}
    with pytest.raises(Rejected) as refused:
        predict(CURVE, cap=cap, load=Load(**figures))
    assert refused.value.field == field
