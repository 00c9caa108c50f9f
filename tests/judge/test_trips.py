from __future__ import annotations

import pytest

from controller.judge.trips import hard_trip, latency_trip, misses_s
from signals.events import MICROS
from tests.judge.builders import BEGAN_US, PLAN, at_us, plan, request


@pytest.mark.parametrize(
    ("errors", "answered", "trips"),
    [(19, 19, False), (20, 399, True), (20, 400, False), (21, 400, True), (0, 0, False)],
)
def test_errors_trip_above_the_rate_and_from_twenty_on(
    errors: int, answered: int, trips: bool
) -> None:
    why = hard_trip(PLAN, errors=errors, answered=answered)
    assert (why is not None) is trips
    if why is not None:
        assert f"{errors} errors in {answered} answers" in why


@pytest.mark.parametrize(
    ("baseline", "candidate", "trips"),
    [(0, 29, False), (0, 30, True), (30, 60, False), (30, 61, True), (10, 39, False)],
)
def test_a_latency_trip_needs_twice_the_misses_and_thirty_more(
    baseline: int, candidate: int, trips: bool
) -> None:
    why = latency_trip(
        PLAN,
        baseline_misses_s=[1.0] * baseline,
        candidate_misses_s=[1.0] * candidate,
        ran_s=10.0,
    )
    assert (why is not None) is trips


def test_arms_are_compared_over_equal_time_only() -> None:
    later = [20.0] * 100
    quiet = latency_trip(PLAN, baseline_misses_s=[], candidate_misses_s=later, ran_s=19.9)
    full = latency_trip(PLAN, baseline_misses_s=[], candidate_misses_s=later, ran_s=20.0)
    assert quiet is None
    assert (
        full == "100 misses on the candidate against 0 on the baseline in the first 20 s of "
        "their blocks"
    )


def test_the_plan_says_when_latency_trips() -> None:
    strict = plan(trip_ratio=1.5, trip_misses=5)
    assert latency_trip(
        strict, baseline_misses_s=[1.0] * 4, candidate_misses_s=[1.0] * 9, ran_s=2.0
    )


def test_a_miss_happens_at_the_end_or_at_the_deadline_whichever_is_first() -> None:
    rows = [
        request(1.0, took_s=2.0, good=False),
        request(1.0, took_s=9.0, good=False),
        request(2.0, took_s=None, good=False),
        request(1.0, good=True),
        request(1.0, took_s=None, good=None),
        request(1.0, good=False, block=5),
        request(3.0, took_s=None, good=False, deadline_us=None),
    ]
    assert misses_s(rows, block=4, began_us=BEGAN_US) == [3.0, 5.0, 6.0]
    assert at_us(1.0) - BEGAN_US == MICROS
