from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from controller.plant.residual import Measured, Residual, isotonic
from controller.plant.settings import PlantSettings
from signals.events import MICROS
from tests.plant.samples import LADDER

SURE = PlantSettings(residual_prior=0.001)
values = st.floats(-5, 5, allow_subnormal=False)
pairs = st.lists(st.tuples(values, st.floats(0.01, 100)), min_size=1, max_size=30)


def seen(*tested: tuple[int, float], at_us: int = 0) -> list[Measured]:
    return [Measured(value=value, log_ratio=ratio, at_us=at_us) for value, ratio in tested]


@given(pairs)
def test_the_pools_are_the_isotonic_regression(found: list[tuple[float, float]]) -> None:
    ys, weights = [y for y, _ in found], [w for _, w in found]
    theirs = isotonic_regression(np.array(ys), weights=np.array(weights)).x
    assert isotonic(ys, weights) == pytest.approx(list(theirs), abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from(LADDER), values), min_size=1, max_size=12), st.booleans())
def test_the_correction_is_monotone_along_the_whole_ladder(
    tested: list[tuple[int, float]], rising: bool
) -> None:
    found = Residual.of(seen(*tested), LADDER, now_us=0, model=SURE, rising=rising)
    along = [found.at(value).mean for value in LADDER]
    sign = 1 if rising else -1
    assert all(sign * (b - a) >= -1e-9 for a, b in pairwise(along))
    low, high = min(r for _, r in tested), max(r for _, r in tested)
    assert all(min(low, 0) - 1e-9 <= mean <= max(high, 0) + 1e-9 for mean in along)


def test_beyond_the_tested_values_the_edge_is_kept_and_the_uncertainty_widens() -> None:
    found = Residual.of(seen((4, -0.1), (8, 0.3)), LADDER, now_us=0, model=SURE)
    edge, next_, far = (found.at(value) for value in (8, 16, 64))
    assert edge.mean == next_.mean == far.mean == pytest.approx(0.3, rel=0.01)
    assert (edge.beyond, next_.beyond, far.beyond) == (0, 1, 3)
    assert next_.deviation - edge.deviation == pytest.approx(SURE.residual_widening)
    assert far.deviation - edge.deviation == pytest.approx(3 * SURE.residual_widening)
    assert found.at(2).mean == pytest.approx(-0.1, rel=0.01)
    assert far.worst() > far.factor > 1


def test_between_tested_values_it_is_straight_in_ladder_places() -> None:
    found = Residual.of(seen((4, 0.0), (32, 0.3)), LADDER, now_us=0, model=SURE)
    assert [found.at(cap).mean for cap in (8, 16)] == pytest.approx([0.1, 0.2], rel=0.01)
    assert found.at(8).beyond == 0


def test_what_is_old_fades_into_the_formula() -> None:
    model = PlantSettings()
    half_us = round(model.residual_half_life_s * MICROS)
    after = [
        Residual.of(seen((8, 0.4)), LADDER, now_us=n * half_us, model=model).at(8)
        for n in range(12)
    ]
    means = [one.mean for one in after]
    assert means[0] == pytest.approx(0.4 / 1.5)
    assert means[1] == pytest.approx(0.4 * 0.5 / 1.0)
    assert means == sorted(means, reverse=True)
    assert means[-1] < 0.001
    assert after[-1].deviation > after[0].deviation


def test_newer_measurements_outweigh_older_ones() -> None:
    old, new = seen((8, 0.5)), seen((8, -0.1), at_us=round(5 * SURE.residual_half_life_s * MICROS))
    found = Residual.of([*old, *new], LADDER, now_us=new[0].at_us, model=SURE)
    assert -0.1 < found.at(8).mean < -0.05


def test_nothing_tested_corrects_nothing_and_says_so() -> None:
    found = Residual.of([], LADDER, now_us=0, model=SURE).at(8)
    assert (found.mean, found.factor) == (0.0, 1.0)
    assert found.deviation > 0


def test_what_is_no_measurement_is_left_out() -> None:
    strange = seen((7, 1.0), (8, math.nan), (16, math.inf))
    assert Residual.of(strange, LADDER, now_us=0, model=SURE).places == ()


def test_it_is_stored_and_comes_back_the_same() -> None:
    found = Residual.of(seen((4, -0.1), (8, 0.3)), LADDER, now_us=0, model=SURE)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Residual) == found
