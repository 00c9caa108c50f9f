from __future__ import annotations

import math

import pytest

from controller.judge.values import block_values, unit_differences
from controller.trials import BlockValues
from tests.judge.builders import block, plan, request, second

LIVE, BATCH = "live", "batch"


def _seen(found: BlockValues | str) -> BlockValues:
    assert isinstance(found, BlockValues), found
    return found


@pytest.mark.parametrize(
    ("arrived_s", "counted"),
    [(5.0, 0), (6.0, 0), (6.000001, 1), (15.0, 1), (26.0, 1), (26.000001, 0), (29.0, 0)],
)
def test_arrivals_count_from_after_the_washout_up_to_h_before_the_end(
    arrived_s: float, counted: int
) -> None:
    """Washout 6 s, block 30 s, H of live 4 s: (6, 26]."""
    found = _seen(block_values(plan(min_requests=0), block(), [request(arrived_s)], []))
    assert found.requests == counted


@pytest.mark.parametrize(
    ("ended_s", "counted"), [(6.0, False), (6.000001, True), (30.0, True), (30.000001, False)]
)
def test_rates_count_seconds_that_end_after_the_washout_up_to_the_end(
    ended_s: float, counted: bool
) -> None:
    seconds = [second(ended_s, tokens={LIVE: 50}, waiting={})]
    found = _seen(block_values(plan(min_requests=0), block(), [], seconds))
    assert ("tokens_per_s:live" in found.values) is counted


def test_attainment_is_good_over_arrived_and_drops_nothing() -> None:
    rows = [
        request(10.0),
        request(11.0, good=False),
        request(12.0, took_s=None, ttft_s=None, good=None),
        request(13.0, status="cancelled", good=False),
        request(14.0, status="error", good=False, ttft_s=None),
    ]
    found = _seen(block_values(plan(), block(), rows, []))
    assert found.values["attainment:live"] == pytest.approx(1 / 5)
    assert (found.requests, found.errors) == (5, 1)


def test_a_request_counts_as_it_stood_at_the_blocks_end() -> None:
    """Reading later must not change a value: what ends after the block is unfinished in it."""
    late = request(25.0, took_s=5.000001)
    on_time = request(25.0, took_s=5.0)
    found = _seen(block_values(plan(), block(), [late, on_time], []))
    assert found.values["attainment:live"] == pytest.approx(1 / 2)
    assert found.values["neg_log_ttft:live"] == pytest.approx(-(math.log(60) + math.log(0.5)) / 2)


def test_ttft_enters_as_minus_its_logarithm_and_unfinished_as_sixty_seconds() -> None:
    rows = [request(10.0, ttft_s=0.25), request(11.0, took_s=None, ttft_s=None, good=None)]
    found = _seen(block_values(plan(), block(), rows, []))
    by_hand = -(math.log(0.25) + math.log(60.0)) / 2
    assert found.values["neg_log_ttft:live"] == pytest.approx(by_hand)


def test_the_maximised_rate_counts_only_seconds_that_end_with_somebody_waiting() -> None:
    seconds = [
        second(10.0, tokens={BATCH: 300, LIVE: 20}, waiting={BATCH: 3}),
        second(11.0, tokens={BATCH: 100, LIVE: 40}, waiting={LIVE: 5}),
        second(11.5, tokens={BATCH: 100, LIVE: 10}, waiting={BATCH: 1}, lasted_s=0.5),
    ]
    found = _seen(block_values(plan(), block(), [request(10.0)], seconds))
    assert found.values["tokens_per_s:batch"] == pytest.approx(400 / 1.5)
    assert found.values["tokens_per_s:live"] == pytest.approx(70 / 2.5)


def test_without_backlog_the_maximised_rate_is_absent_not_zero() -> None:
    seconds = [second(10.0, tokens={BATCH: 100}, waiting={})]
    found = _seen(block_values(plan(), block(), [request(10.0)], seconds))
    assert "tokens_per_s:batch" not in found.values
    assert "U" not in found.values


def test_u_is_half_the_rate_and_half_the_mean_attainment_over_target() -> None:
    """Rate 200 of 400; live 1 of 2 against .9; batch 1 of 1 against .8, capped at 1."""
    rows = [request(10.0), request(11.0, good=False), request(12.0, intent=BATCH)]
    seconds = [second(10.0, tokens={BATCH: 200}, waiting={BATCH: 1})]
    found = _seen(block_values(plan(), block(), rows, seconds))
    by_hand = 0.5 * (200 / 400) + 0.5 * (0.5 / 0.9 + 1.0) / 2
    assert found.values["U"] == pytest.approx(by_hand)
    parts = [value for metric, value in found.values.items() if metric.startswith("U:")]
    assert sum(parts) == pytest.approx(by_hand)


def test_a_rate_above_its_reference_is_worth_no_more_than_one() -> None:
    seconds = [second(10.0, tokens={BATCH: 900}, waiting={BATCH: 1})]
    found = _seen(block_values(plan(), block(), [request(10.0)], seconds))
    assert found.values["U:tokens_per_s:batch"] == 0.5


def test_halves_split_each_counted_window_in_the_middle() -> None:
    """Live counts in (6, 26], so 16 s is the last moment of the first half."""
    rows = [request(16.0), request(16.000001, good=False)]
    seconds = [
        second(18.0, tokens={LIVE: 10}, waiting={}),
        second(19.0, tokens={LIVE: 30}, waiting={}),
    ]
    first, later = _seen(block_values(plan(), block(), rows, seconds)).halves
    assert (first["attainment:live"], later["attainment:live"]) == (1.0, 0.0)
    assert (first["tokens_per_s:live"], later["tokens_per_s:live"]) == (10.0, 30.0)


def test_rows_of_other_blocks_and_trials_are_ignored() -> None:
    rows = [request(10.0), request(10.0, block=5, good=False), request(10.0, trial="tri_2")]
    found = _seen(block_values(plan(), block(), rows, []))
    assert (found.requests, found.values["attainment:live"]) == (1, 1.0)


def test_a_block_with_too_few_arrivals_says_so() -> None:
    found = block_values(plan(min_requests=3), block(), [request(10.0), request(3.0)], [])
    assert found == "1 counted arrivals, fewer than the 3 planned"


def test_a_void_or_unapplied_block_has_no_values() -> None:
    assert block_values(plan(), block(void="engine restarted"), [request(10.0)], []) == (
        "engine restarted"
    )
    found = block_values(plan(), block(began_us=None), [request(10.0)], [])
    assert isinstance(found, str)


def test_differences_are_candidate_minus_baseline_of_what_both_have() -> None:
    d = unit_differences(
        {"attainment:live": 0.9, "tokens_per_s:batch": 100.0},
        {"attainment:live": 0.8, "neg_log_ttft:live": 1.0},
    )
    assert d == {"attainment:live": pytest.approx(-0.1)}


def test_a_part_of_u_that_one_arm_lacks_contributes_no_difference() -> None:
    baseline = {"U:tokens_per_s:batch": 0.2, "U:attainment:live": 0.25}
    candidate = {"U:attainment:live": 0.2, "U:attainment:batch": 0.25}
    assert unit_differences(baseline, candidate)["U"] == pytest.approx(-0.05)
    assert "U" not in unit_differences({"U:attainment:live": 0.2}, {"U:tokens_per_s:batch": 0.2})


def test_the_difference_of_u_is_that_of_its_whole_when_nothing_is_missing() -> None:
    rows = [request(10.0), request(12.0, intent=BATCH)]
    slow = [second(10.0, tokens={BATCH: 100}, waiting={BATCH: 1})]
    fast = [second(10.0, tokens={BATCH: 180}, waiting={BATCH: 1})]
    before = _seen(block_values(plan(), block(), rows, slow)).values
    after = _seen(block_values(plan(), block(), rows, fast)).values
    d = unit_differences(before, after)
    assert d["U"] == pytest.approx(after["U"] - before["U"])
    assert d["U"] == pytest.approx(0.5 * 80 / 400)
