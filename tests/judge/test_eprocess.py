from __future__ import annotations

import doctest
import math
from collections.abc import Callable

import numpy as np
import pytest

from controller.judge import eprocess
from controller.judge.eprocess import e_value, guard_e_value, pessimistic_mean

Rng = np.random.Generator


def test_the_documented_examples_are_true() -> None:
    assert doctest.testmod(eprocess).failed == 0


def test_one_unit_pays_what_the_formula_says() -> None:
    d, scale = 0.05, 0.5
    bets = [g / scale * d for g in (4, 8, 16, 32)]
    by_hand = sum(math.exp(x) / math.cosh(x) for x in bets) / 4
    assert e_value([d], scale=scale) == pytest.approx(by_hand, rel=1e-12)


def test_units_multiply_within_each_bet_and_average_over_bets() -> None:
    ds = [0.02, -0.01, 0.04]
    by_hand = sum(math.prod(math.exp(g * d) / math.cosh(g * d) for d in ds) for g in (4, 8, 16, 32))
    assert e_value(ds, scale=1.0) == pytest.approx(by_hand / 4, rel=1e-12)


def test_ties_and_no_units_are_no_evidence() -> None:
    assert e_value([], scale=1.0) == 1.0
    assert e_value([0.0] * 50, scale=1.0) == pytest.approx(1.0)
    assert e_value([0.3, 0.0], scale=1.0) == pytest.approx(e_value([0.3], scale=1.0))


@pytest.mark.parametrize(("alpha", "least"), [(0.01, 7), (0.05, 5)])
def test_no_effect_however_large_decides_before_so_many_units(alpha: float, least: int) -> None:
    assert e_value([1e6] * (least - 1), scale=1.0) < 1 / alpha
    assert e_value([1e6] * least, scale=1.0) >= 1 / alpha


def test_huge_differences_neither_overflow_nor_leave_a_nan() -> None:
    assert e_value([1e300, -1e300], scale=1e-3) == 0.0
    assert e_value([1e300] * 60, scale=1e-3) == pytest.approx(2.0**60)


def test_the_worst_tenth_of_units_rounded_up_counts_twice() -> None:
    assert pessimistic_mean([0.1]) == pytest.approx(0.1)
    assert pessimistic_mean([0.1] * 6 + [-0.7]) == pytest.approx((0.6 - 1.4) / 8)
    assert pessimistic_mean([1.0] * 18 + [-1.0, -2.0]) == pytest.approx((18 - 3 - 3) / 22)


def test_a_guard_by_hand() -> None:
    margin, ds = 0.05, [0.01, -0.03]
    by_hand = sum(
        math.prod(
            math.exp(g / margin * (d + margin)) / math.cosh(g / margin * (d + margin)) for d in ds
        )
        for g in (0.125, 0.5, 2.0, 8.0)
    )
    assert guard_e_value(ds, margin=margin) == pytest.approx(by_hand / 4, rel=1e-12)


def _random_walk(rng: Rng, blocks: int) -> np.ndarray:
    """Load that wanders off and never comes back, and jumps now and then."""
    jumps = rng.normal(0, 1.0, blocks) * (rng.random(blocks) < 0.05)
    return np.asarray(np.cumsum(rng.normal(0, 0.15, blocks) + jumps))


def _slow_noise(rng: Rng, blocks: int) -> np.ndarray:
    level, levels = 0.0, np.empty(blocks)
    for index in range(blocks):
        level = 0.95 * level + rng.normal(0, 0.1)
        levels[index] = level
    return levels


def _rising(rng: Rng, blocks: int) -> np.ndarray:
    return np.linspace(0.0, 6.0, blocks) + rng.standard_t(2, blocks) * 0.05


def _ever(rng: Rng, load: Callable[[Rng, int], np.ndarray], effect: float, limit: float) -> bool:
    """Whether E reaches the limit at any of 60 looks; arms in coin order, nothing else random."""
    levels = load(rng, 120)
    ds: list[float] = []
    for first, second in zip(levels[::2], levels[1::2], strict=True):
        change = float(second - first)
        ds.append((change if rng.random() < 0.5 else -change) + effect)
        if e_value(ds, scale=1.0) >= limit:
            return True
    return False


@pytest.mark.parametrize("load", [_random_walk, _slow_noise, _rising])
def test_with_no_effect_false_alarms_stay_below_alpha_whatever_the_load(
    load: Callable[[Rng, int], np.ndarray],
) -> None:
    alpha, paths, seed = 0.05, 1000, 20260801
    rng = np.random.default_rng(seed)
    alarms = sum(_ever(rng, load, 0.0, 1 / alpha) for _ in range(paths))
    two_sigma = 2 * math.sqrt(alpha * (1 - alpha) / paths)
    assert alarms / paths < alpha + two_sigma, f"{alarms} of {paths}, seed {seed}"


def test_a_candidate_worse_by_just_the_margin_rarely_passes_its_guard() -> None:
    alpha, paths, margin, seed = 0.05, 500, 0.05, 11
    rng = np.random.default_rng(seed)
    passed = 0
    for _ in range(paths):
        ds = list(rng.normal(-margin, 0.05, 40))
        passed += any(guard_e_value(ds[:n], margin=margin) >= 1 / alpha for n in range(6, 41))
    assert passed / paths < alpha + 2 * math.sqrt(alpha * (1 - alpha) / paths), (
        f"{passed} of {paths}, seed {seed}"
    )


def test_a_real_effect_is_found_within_the_trial() -> None:
    paths, seed = 100, 5
    rng = np.random.default_rng(seed)
    found = sum(_ever(rng, _slow_noise, 0.1, 100.0) for _ in range(paths))
    assert found >= 95, f"{found} of {paths}, seed {seed}"
