"""What every drift detector must do, whichever it is."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import reduce

import msgspec
import pytest

from controller.drift.page_hinkley import PageHinkley
from controller.drift.two_window import TwoWindow

Detector = PageHinkley | TwoWindow
DETECTORS: tuple[Detector, ...] = (PageHinkley(), TwoWindow())
every = pytest.mark.parametrize("fresh", DETECTORS, ids=lambda one: type(one).__name__)
SEEDS = range(5)


def fed(detector: Detector, values: Iterable[float]) -> Detector:
    return reduce(lambda one, x: one.update(x), values, detector)


def noise(n: int, *, seed: int, level: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(level, 1.0) for _ in range(n)]


def first_alarm(detector: Detector, values: Iterable[float]) -> int | None:
    for index, x in enumerate(values):
        detector = detector.update(x)
        if detector.drifted:
            return index
    return None


@every
def test_the_same_values_give_the_same_detector_and_the_old_one_stays(fresh: Detector) -> None:
    before = msgspec.json.encode(fresh)
    assert fed(fresh, noise(100, seed=1)) == fed(fresh, noise(100, seed=1))
    assert msgspec.json.encode(fresh) == before


@every
def test_it_is_stored_and_goes_on_where_it_was(fresh: Detector) -> None:
    values = [*noise(60, seed=2), *noise(30, seed=3, level=2.0)]
    whole = fed(fresh, values)
    half = msgspec.json.decode(msgspec.json.encode(fed(fresh, values[:45])), type=type(fresh))
    assert fed(half, values[45:]) == whole


@every
def test_a_value_that_is_none_changes_nothing(fresh: Detector) -> None:
    seen = fed(fresh, noise(50, seed=4))
    assert fed(seen, [math.nan, math.inf, -math.inf]) == seen
    assert not fed(fresh, [1e308, -1e308] * 40).drifted


@every
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shift", [2.0, -2.0])
def test_a_shift_of_two_deviations_is_found_within_20_values(
    fresh: Detector, seed: int, shift: float
) -> None:
    quiet = fed(fresh, noise(60, seed=seed))
    found = first_alarm(quiet, noise(20, seed=100 + seed, level=shift))
    assert found is not None, f"seed {seed}"


@every
@pytest.mark.parametrize("seed", SEEDS)
def test_a_single_bad_value_is_no_drift(fresh: Detector, seed: int) -> None:
    values = noise(60, seed=seed)
    assert first_alarm(fresh, [*values, 50.0, *noise(10, seed=200 + seed)]) is None, f"seed {seed}"


@every
@pytest.mark.parametrize("seed", SEEDS)
def test_the_new_level_is_got_used_to_and_the_next_drift_found_too(
    fresh: Detector, seed: int
) -> None:
    settled = fed(fresh, [*noise(60, seed=seed), *noise(80, seed=300 + seed, level=4.0)])
    assert not settled.drifted, f"seed {seed}"
    assert first_alarm(settled, noise(25, seed=400 + seed)) is not None, f"seed {seed}"


@every
def test_its_memory_has_a_bound(fresh: Detector) -> None:
    sizes = [len(msgspec.json.encode(fed(fresh, noise(n, seed=5)))) for n in (200, 2000)]
    assert sizes[1] < 1.2 * sizes[0] < 5000


@every
def test_what_nothing_drifts_in_raises_few_alarms(fresh: Detector) -> None:
    """Independent values of 30 s blocks: at most one alarm in 20 hours over ten seeds."""
    alarms = 0
    for seed in range(10):
        detector, was = fresh, False
        for x in noise(240, seed=500 + seed):
            detector = detector.update(x)
            alarms += detector.drifted and not was
            was = detector.drifted
    assert alarms <= 1
