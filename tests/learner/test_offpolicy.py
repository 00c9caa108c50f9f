"""Off-policy estimates: right on average, honest about error, refused where the log can't say."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from controller.learner import offpolicy
from controller.learner.offpolicy import By, Unit, estimate
from signals.errors import Rejected

MEANS = (0.2, 0.5, 0.8)
TARGET = (0.1, 0.2, 0.7)
TRUTH = math.fsum(m * t for m, t in zip(MEANS, TARGET, strict=True))
KINDS: tuple[By, ...] = ("ips", "snips", "dr")
EACH = pytest.mark.parametrize("by", KINDS)


def logged(seed: int, count: int = 300) -> list[Unit]:
    """Units of a log whose propensities change from unit to unit."""
    rng = np.random.default_rng(seed)
    units = []
    for _ in range(count):
        shares = 0.9 * rng.dirichlet((2.0, 2.0, 2.0)) + 0.1 / 3
        chosen = int(np.searchsorted(np.cumsum(shares)[:2], rng.random()))
        units.append(
            Unit(
                chosen=chosen,
                propensities=tuple(map(float, shares)),
                target=TARGET,
                reward=float(np.clip(rng.normal(MEANS[chosen], 0.1), 0, 1)),
                span_s=60.0,
                since_change_s=60.0,
                predictions=(0.3, 0.4, 0.7),
            )
        )
    return units


@EACH
def test_the_interval_holds_the_truth_as_often_as_it_says(by: By) -> None:
    """100 logs, seeds 0 to 99: at 95 % at least 88 hold it but once in a thousand runs."""
    found = [estimate(logged(seed, 150), washout_s=10, by=by) for seed in range(100)]
    assert sum(one.low <= TRUTH <= one.high for one in found) >= 88
    assert np.mean([one.value for one in found]) == pytest.approx(TRUTH, abs=0.015)


def test_what_an_adaptive_log_has_too_few_of_widens_the_interval() -> None:
    """Two logs of equal terms; one has the target's mix, the other has only its best action."""
    mixed = [
        Unit(
            chosen=at % 2,
            propensities=(0.5, 0.5),
            target=(0.5, 0.5),
            reward=0.5 + 0.1 * (at % 3),
            span_s=60.0,
            since_change_s=60.0,
        )
        for at in range(120)
    ]
    lopsided = [msgspec.structs.replace(unit, chosen=0) for unit in mixed]
    fair, off = (estimate(units, washout_s=10, by="snips") for units in (mixed, lopsided))
    assert fair.value == off.value
    assert off.high - off.low > 2 * (fair.high - fair.low)


def test_units_that_are_like_their_neighbours_widen_the_interval() -> None:
    units = [
        msgspec.structs.replace(unit, reward=float(at // 30 % 2))
        for at, unit in enumerate(logged(8, 240))
    ]
    shuffled = [units[at] for at in np.random.default_rng(8).permutation(240)]
    alike, apart = (estimate(found, washout_s=10, by="snips") for found in (units, shuffled))
    assert alike.high - alike.low > 1.2 * (apart.high - apart.low)


def test_a_model_of_reward_narrows_the_interval() -> None:
    units = logged(1)
    widths = {by: (e := estimate(units, washout_s=10, by=by)).high - e.low for by in KINDS}
    assert widths["dr"] < widths["ips"]


@EACH
def test_units_within_the_washout_are_left_out(by: By) -> None:
    units = logged(2)
    spoiled = msgspec.structs.replace(units[0], reward=900.0, since_change_s=5.0)
    found = estimate([*units, spoiled], washout_s=10, by=by)
    assert found.left_out == 1
    assert found.value == estimate(units, washout_s=10, by=by).value


@EACH
def test_below_ninety_percent_support_it_is_refused(by: By) -> None:
    never = [
        msgspec.structs.replace(unit, propensities=(0.5, 0.5, 0.0), chosen=unit.chosen % 2)
        for unit in logged(3)
    ]
    with pytest.raises(Rejected, match="30% of what this policy does") as caught:
        estimate(never, washout_s=10, by=by)
    assert caught.value.field == "support"


def test_a_few_units_that_would_speak_for_all_are_refused() -> None:
    units = [
        msgspec.structs.replace(unit, propensities=(0.495, 0.495, 0.01), target=(0.0, 0.0, 1.0))
        for unit in logged(4)
    ]
    few = [unit for unit in units if unit.chosen != 2] + [u for u in units if u.chosen == 2][:3]
    with pytest.raises(Rejected, match=r"are worth 3\.0"):
        estimate(few, washout_s=10, by="ips")


def test_what_does_not_belong_together_is_refused_by_name() -> None:
    good = logged(5)
    for field, bad in (
        ("target", msgspec.structs.replace(good[0], target=(0.5, 0.5))),
        ("propensities", msgspec.structs.replace(good[0], propensities=(0.5, 0.2, 0.2))),
        ("chosen", msgspec.structs.replace(good[0], chosen=7)),
        ("reward", msgspec.structs.replace(good[0], reward=math.nan)),
        ("predictions", msgspec.structs.replace(good[0], predictions=())),
    ):
        with pytest.raises(Rejected) as caught:
            estimate([*good, bad], washout_s=10, by="dr")
        assert caught.value.field == field


def test_no_units_give_no_estimate() -> None:
    with pytest.raises(Rejected, match="0 units are left"):
        estimate(logged(6), washout_s=60, by="snips")


def test_an_estimate_says_in_words_what_it_rests_on_and_knows_no_mode() -> None:
    found = estimate(logged(7), washout_s=10, by="dr")
    assert "by DR from 300 units" in found.words() and "100% support" in found.words()
    assert not [name for name in vars(offpolicy) if "mode" in name.lower()]
