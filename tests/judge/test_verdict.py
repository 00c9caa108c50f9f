from __future__ import annotations

import pytest

from controller.judge.verdict import hard_ruling, rule_on
from controller.trials import GuardPlan
from tests.judge.builders import PLAN, plan, trial, unit


def test_a_clear_gain_with_a_guard_that_holds_is_improved() -> None:
    ruling = rule_on(trial([0.3] * 7))
    assert (ruling.verdict, ruling.cause, ruling.units) == ("IMPROVED", "evidence:U", 7)
    assert ruling.e["U>0"] >= 100
    assert ruling.effect is not None
    assert ruling.effect.estimate == pytest.approx(0.3)
    assert "IMPROVED: U +0.3" in ruling.words
    assert "attainment:live not worse by 0.05" in ruling.words


def test_before_the_least_number_of_units_nothing_is_ruled() -> None:
    ruling = rule_on(trial([0.3] * 6))
    assert ruling.verdict is None
    assert ruling.words.startswith("going on")


def test_with_a_guard_harm_needs_a_unit_more_than_gain() -> None:
    """α/(G+1) = .005: 2⁷ = 128 is below 200, 2⁸ is not."""
    assert rule_on(trial([-0.5] * 7)).verdict is None
    harmed = rule_on(trial([-0.5] * 8))
    assert (harmed.verdict, harmed.cause) == ("HARMED", "evidence:U")
    assert harmed.words.startswith("HARMED: U -0.5")


def test_without_guards_five_units_decide_at_five_percent_either_way() -> None:
    quick = plan(alpha=0.05, min_units=5, guards=())
    assert rule_on(trial([0.6] * 4, plan=quick)).verdict is None
    assert rule_on(trial([0.6] * 5, plan=quick)).verdict == "IMPROVED"
    assert rule_on(trial([-0.6] * 5, plan=quick)).verdict == "HARMED"


def test_a_guard_that_gets_worse_is_harm_even_while_the_primary_gains() -> None:
    ruling = rule_on(trial([0.3] * 8, [-0.4] * 8))
    assert (ruling.verdict, ruling.cause) == ("HARMED", "evidence:attainment:live")
    assert ruling.words.startswith("HARMED: attainment:live -0.4")
    assert "U +0.3" in ruling.words


def test_a_gain_waits_until_its_guard_is_sure() -> None:
    """Guard differences of −.06 and +.05 around a margin of .05 say little in seven units."""
    assert rule_on(trial([0.3] * 7, [-0.06, 0.05] * 3 + [-0.06])).verdict is None
    sure = trial([0.3] * 40, [-0.06, 0.05] * 20, plan=plan(max_units=60))
    assert rule_on(sure).verdict == "IMPROVED"


def test_a_guard_without_data_never_passes() -> None:
    blind = trial([0.3] * 9, plan=plan(guards=(GuardPlan(metric="x", margin=0.1, scale=1.0),)))
    assert rule_on(blind).verdict is None


@pytest.mark.parametrize(("loss", "verdict"), [(-0.105, "IMPROVED"), (-0.115, None)])
def test_evidence_is_not_enough_when_the_worst_tenth_counted_twice_eats_the_gain(
    loss: float, verdict: str | None
) -> None:
    """180 × .025 = 4.5 against 2 × 20 × .105 = 4.2 or 2 × 20 × .115 = 4.6."""
    long = plan(guards=(), max_units=1000)
    ruling = rule_on(trial([0.025] * 180 + [loss] * 20, plan=long))
    assert ruling.e["U>0"] >= 100
    assert ruling.verdict == verdict


def test_the_last_unit_without_a_verdict_is_inconclusive_and_keeps_the_estimate() -> None:
    ruling = rule_on(trial([0.01, -0.01] * 10))
    assert (ruling.verdict, ruling.cause) == ("INCONCLUSIVE", "max_units")
    assert ruling.effect is not None
    assert ruling.effect.low < 0 < ruling.effect.high


def test_void_units_are_not_evidence_but_do_end_a_trial() -> None:
    voids = tuple(unit(i, {}, void="incomplete telemetry", judged=False) for i in range(13))
    gains = tuple(unit(13 + i, {"U": 0.3, "attainment:live": 0.0}) for i in range(6))
    assert rule_on(trial([], units=voids + gains)).verdict is None
    ended = rule_on(trial([], units=(*voids, *gains, unit(19, {}, void="x", judged=False))))
    assert (ended.verdict, ended.units) == ("INCONCLUSIVE", 6)


def test_units_without_data_are_neither_good_nor_bad() -> None:
    empty = tuple(unit(i, {}, void="0 counted arrivals", judged=False) for i in range(7))
    ruling = rule_on(trial([], units=empty))
    assert (ruling.verdict, ruling.cause, ruling.effect) == ("NO_DATA", "no_data", None)
    assert rule_on(trial([], units=empty[:6])).verdict is None


def test_the_third_latency_trip_ends_a_trial_undecided() -> None:
    assert rule_on(trial([0.1] * 3, trips=2)).verdict is None
    ruling = rule_on(trial([0.1] * 3, trips=3))
    assert (ruling.verdict, ruling.cause) == ("INCONCLUSIVE", "latency_trips")


def test_a_hard_trip_is_harm_with_its_cause_and_the_evidence_beside_it() -> None:
    ruling = hard_ruling(trial([0.1] * 3), "error rate 40.0% over the limit of 5.0%")
    assert ruling.verdict == "HARMED"
    assert ruling.cause is not None and ruling.cause.startswith("error rate")
    assert "not by the e-process" in ruling.words and ruling.e["U>0"] > 1


def test_the_interval_is_students() -> None:
    ruling = rule_on(trial([0.1, 0.2, 0.3]))
    assert ruling.effect is not None
    assert ruling.effect.low == pytest.approx(0.2 - 4.302653 * 0.1 / 3**0.5, abs=1e-6)
    assert ruling.effect.high == pytest.approx(0.2 + 4.302653 * 0.1 / 3**0.5, abs=1e-6)


def test_every_test_has_its_e_value_by_name() -> None:
    found = rule_on(trial([0.1]))
    assert set(found.e) == {"U>0", "U<0", "attainment:live>-0.05", "attainment:live<0"}
    assert PLAN.guards[0].metric == "attainment:live"
