"""The rhythm of a law's context, where requests come by chance within each busy phase."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from controller.arrival_history import SPAN_S, ArrivalHistory
from controller.plant.cycles import cycle_s
from policies.laws import Law, LawStep
from signals.events import MICROS
from signals.features.model import SecondRow
from tests.plant.test_plant_input import STEP, second

LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=64,
    steps=(LawStep(above=0.0, value=8),),
    min_dwell_s=1.0,
)


def phases(seed: int, *, per_s: float, seconds: int, on_s: int = 80) -> list[tuple[int, float]]:
    """Arrivals by chance in every other phase."""
    rng = random.Random(seed)
    busy = [second // on_s % 2 == 0 for second in range(seconds)]
    return [
        (at * MICROS, float(sum(rng.random() < per_s / 10 for _ in range(10)) if on else 0))
        for at, on in enumerate(busy)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_pauses_within_a_phase_begin_no_cycle(seed: int) -> None:
    found = cycle_s(LAW, phases(seed, per_s=1.5, seconds=1800))
    assert found == pytest.approx(160.0, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_requests_that_come_by_chance_alone_have_no_rhythm(seed: int) -> None:
    rng = random.Random(seed)
    counts = [(at * MICROS, float(rng.random() < 0.1)) for at in range(1800)]
    assert cycle_s(LAW, counts) is None


def test_half_an_hour_is_asked_for_once_and_then_only_what_is_new() -> None:
    history, now_us = ArrivalHistory(), 10_000 * MICROS
    assert history.asks_from_us(now_us, least_s=300) == now_us - SPAN_S * MICROS - 1
    history.take([], now_us=now_us)
    later_us = now_us + 2 * MICROS
    assert history.asks_from_us(later_us, least_s=300) == later_us - 300 * MICROS - 1
    gone_us = now_us + 400 * MICROS
    assert history.asks_from_us(gone_us, least_s=300) == gone_us - SPAN_S * MICROS - 1


def test_a_second_that_is_told_again_counts_as_it_is_known_now() -> None:
    row = second(0, STEP)
    history, now_us = ArrivalHistory(), row.to_us
    history.take([row, _of("r1", row)], now_us=now_us)
    history.take([row, _of("r1", row)], now_us=now_us + MICROS)
    assert history.arrivals == ((row.to_us // MICROS * MICROS, {"live": 2}),)
    history.take([], now_us=now_us + (SPAN_S + 2) * MICROS)
    assert not history.arrivals


def _of(replica: str, row: SecondRow) -> SecondRow:
    return structs.replace(row, replica=replica)
