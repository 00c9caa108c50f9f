"""The sliding window of arrivals, against one that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.metering import ArrivalMeter, RunningTotals


@given(
    gaps_s=st.lists(st.floats(0.011, 3.0), max_size=60),
    tokens=st.integers(1, 500),
    window_s=st.floats(0.1, 30.0),
    wait_s=st.floats(0.0, 40.0),
)
def test_it_counts_what_arrived_in_the_window_and_nothing_else(
    gaps_s: list[float], tokens: int, window_s: float, wait_s: float
) -> None:
    totals, times, now_s = RunningTotals(horizon_s=60.0, resolution_s=0.01), [], 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        totals.add(tokens, now_s)
        times.append(now_s)
    now_s += wait_s
    inside = sum(1 for arrived_s in times if arrived_s > now_s - window_s)
    assert totals.within(window_s, now_s) == (inside, inside * tokens)


def test_its_memory_is_bounded_however_many_arrive() -> None:
    totals = RunningTotals(horizon_s=10.0, resolution_s=0.1)
    for number in range(100_000):
        totals.add(3, number * 0.001)
    assert totals.marks <= 2 * 100 + 2
    assert totals.totals() == (100_000, 300_000)
    assert totals.within(1.0, 99.999)[0] in range(900, 1101)


def test_offered_tokens_per_second_sums_the_classes_when_none_is_named() -> None:
    meter = ArrivalMeter(("interactive", "batch"))
    meter.note("interactive", tokens=100, now_s=1.0)
    meter.note("batch", tokens=300, now_s=1.5)
    read = meter.read
    assert read("offered_tokens_per_s", None, window_s=4.0, now_s=2.0) == 100.0
    assert read("offered_tokens_per_s", "batch", window_s=4.0, now_s=2.0) == 75.0
    assert read("arrivals", None, window_s=0.6, now_s=2.0) == 1.0


def test_a_variable_cannot_fall_before_its_oldest_arrival_leaves_the_window() -> None:
    meter = ArrivalMeter(("interactive", "batch"))
    assert meter.next_fall_s("interactive", window_s=2.0, now_s=0.0) == float("inf")
    meter.note("interactive", tokens=10, now_s=1.0)
    meter.note("interactive", tokens=10, now_s=2.5)
    meter.note("batch", tokens=10, now_s=0.5)
    assert meter.next_fall_s("interactive", window_s=2.0, now_s=2.6) == 3.0
    assert meter.next_fall_s("interactive", window_s=2.0, now_s=3.0) == 4.5
    assert meter.next_fall_s(None, window_s=4.0, now_s=2.6) == 4.5
    assert meter.read("arrivals", None, window_s=4.0, now_s=4.4) == 3.0
    assert meter.read("arrivals", None, window_s=4.0, now_s=4.5) == 2.0
