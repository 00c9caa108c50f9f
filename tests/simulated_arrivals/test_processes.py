"""Processes and what reshapes them: rates, order, seeds."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from msgspec.structs import replace

from engine.simulated import arrivals
from engine.simulated.arrivals import change, flood, shaping, waves
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.lengths import LogNormal, Observed, Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.offered import Arrivals, Offered
from signals.errors import Rejected

CHATS = Load(kind=LIVE, per_s=5.0)
MODULES = [module.name for module in pkgutil.iter_modules(arrivals.__path__)]


def until(stream: Arrivals, to_s: float) -> list[Offered]:
    return list(shaping.window(stream, 0.0, to_s))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def per_second(found: list[Offered], to_s: int) -> np.ndarray:
    return np.histogram([o.arrival_s for o in found], bins=to_s, range=(0, to_s))[0]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_every_module_are_true(name: str) -> None:
    module = importlib.import_module(f"{arrivals.__name__}.{name}")
    assert doctest.testmod(module).failed == 0


def test_a_plain_poisson_process_has_its_rate_and_variance_and_nothing_is_repeated() -> None:
    seed = 1
    counts = per_second(until(poisson(CHATS, rng(seed)), 3000), 3000)
    assert counts.mean() == pytest.approx(5.0, rel=0.03), f"seed {seed}"
    assert counts.var() == pytest.approx(5.0, rel=0.1), f"seed {seed}"


def test_a_wandering_load_keeps_its_mean_and_stays_high_or_low_for_long() -> None:
    seeds = range(10)
    load = Load(kind=LIVE, per_s=20.0, load_sd=0.4, memory=0.95)
    paths = [per_second(until(poisson(load, rng(seed)), 1000), 1000) for seed in seeds]
    assert np.mean(paths) == pytest.approx(20.0, rel=0.08), f"seeds {seeds}"
    lag_20 = np.mean([np.corrcoef(path[:-20], path[20:])[0, 1] for path in paths])
    assert lag_20 > 0.1, f"seeds {seeds}"


def test_the_same_seed_offers_the_same_requests_and_another_one_others() -> None:
    once, again, other = (list(islice(poisson(CHATS, rng(s)), 50)) for s in (6, 6, 7))
    assert once == again != other


def test_phases_are_busy_for_eighty_seconds_and_quiet_for_eighty() -> None:
    seed = 2
    stream = waves.phases(CHATS, rng(seed), on_s=80, off_s=80, off_share=0.1)
    counts = per_second(until(stream, 1600), 1600).reshape(10, 2, 80)
    assert counts[:, 0].mean() == pytest.approx(5.0, rel=0.1), f"seed {seed}"
    assert counts[:, 1].mean() == pytest.approx(0.5, rel=0.3), f"seed {seed}"


def test_a_change_moves_rate_and_lengths_at_its_moment() -> None:
    seed = 3
    longer = Uniform(prompt_tokens=(900, 999), output_tokens=(200, 299))
    after = poisson(Load(kind=LIVE, per_s=10.0, lengths=longer), rng(seed))
    found = until(change.changed(poisson(CHATS, rng(seed)), after, at_s=300.0), 600.0)
    early = [o for o in found if o.arrival_s < 300]
    late = [o for o in found if o.arrival_s >= 300]
    assert len(late) == pytest.approx(2 * len(early), rel=0.15), f"seed {seed}"
    assert max(o.output_tokens for o in early) <= 40 < min(o.output_tokens for o in late)


def test_a_flood_comes_at_one_moment_and_a_steady_stream_goes_on() -> None:
    seed = 4
    found = until(flood.backlog(flood.batch(2.0), rng(seed), jobs=500, at_s=10.0), 110.0)
    assert [o.arrival_s for o in found[:500]] == [10.0] * 500
    assert {o.class_ for o in found} == {"batch"}
    assert len(found) - 500 == pytest.approx(200, rel=0.25), f"seed {seed}"


def test_merged_streams_stay_in_order_and_lose_nothing() -> None:
    parts = [until(poisson(CHATS, rng(seed)), 50.0) for seed in (1, 2)]
    found = list(shaping.merged(*parts))
    assert sorted(found, key=lambda o: o.arrival_s) == found
    assert len(found) == len(parts[0]) + len(parts[1])


def test_a_day_in_an_hour_has_the_same_requests_in_a_twenty_fourth_of_the_time() -> None:
    day = until(poisson(CHATS, rng(5)), 240.0)
    fast = list(shaping.faster(day, 24.0))
    assert [o.arrival_s * 24 for o in fast] == pytest.approx([o.arrival_s for o in day])
    assert [o.output_tokens for o in fast] == [o.output_tokens for o in day]


def test_a_window_counts_from_its_first_second_and_ends_an_endless_stream() -> None:
    found = list(shaping.window(poisson(CHATS, rng(5)), 100.0, 200.0))
    whole = until(poisson(CHATS, rng(5)), 200.0)
    late = [o.arrival_s - 100.0 for o in whole if o.arrival_s >= 100.0]
    assert [o.arrival_s for o in found] == late


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
def test_a_rate_is_scaled_without_shortening_the_day(factor: float) -> None:
    seed = 8
    day = until(poisson(CHATS, rng(seed)), 800.0)
    found = list(shaping.rate_scaled(day, factor, rng(seed)))
    moments = [o.arrival_s for o in found]
    assert moments == sorted(moments)
    assert len(found) == pytest.approx(factor * len(day), rel=0.06), f"seed {seed}"
    assert moments[-1] == pytest.approx(800.0, abs=8.0)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_a_factor_that_is_no_positive_number_is_refused(factor: float) -> None:
    with pytest.raises(Rejected, match="above 0"):
        list(shaping.rate_scaled([], factor, rng(1)))
    with pytest.raises(Rejected, match="above 0"):
        shaping.faster([], factor)


REFUSED: dict[str, Callable[[], object]] = {
    "per_s -1": lambda: next(poisson(Load(kind=LIVE, per_s=-1.0), rng(1))),
    "load_sd nan": lambda: next(poisson(Load(kind=LIVE, per_s=1.0, load_sd=float("nan")), rng(1))),
    "memory 1.5": lambda: next(poisson(Load(kind=LIVE, per_s=1.0, memory=1.5), rng(1))),
    "on_s 0": lambda: waves.square(on_s=0, off_s=80),
    "off_share 2": lambda: waves.square(on_s=80, off_s=80, off_share=2.0),
    "lowest -0.1": lambda: waves.day(lowest=-0.1),
    "jobs -1": lambda: next(flood.flood(CHATS, rng(1), jobs=-1)),
    "at_s -1": lambda: change.changed(iter([]), iter([]), at_s=-1.0),
    "prompt_tokens 0": lambda: Uniform(prompt_tokens=(0, 9), output_tokens=(1, 9)),
    "output_tokens 4": lambda: Uniform(prompt_tokens=(1, 9), output_tokens=(5, 4)),
    "spread_s -1": lambda: next(shaping.rate_scaled([], 1.0, rng(1), spread_s=-1.0)),
    "mean_requests 0.5": lambda: next(shaping.in_sessions([], rng(1), mean_requests=0.5)),
}


@pytest.mark.parametrize("told", REFUSED)
def test_a_load_that_cannot_be_is_refused_by_field_and_value(told: str) -> None:
    with pytest.raises(Rejected, match=f"^{told}"):
        REFUSED[told]()


def test_sessions_have_their_mean_length_and_leave_the_requests_as_they_were() -> None:
    seed = 12
    day = until(poisson(CHATS, rng(seed)), 2000.0)
    found = list(shaping.in_sessions(day, rng(seed), mean_requests=8.0, open_at_once=20))
    assert [replace(o, session=None) for o in found] == day
    sessions = len({o.session for o in found})
    assert len(found) / sessions == pytest.approx(8.0, rel=0.1), f"seed {seed}"


def test_long_tails_have_their_medians_and_end() -> None:
    seed = 3
    lengths = LogNormal(
        prompt_median_tokens=1000, prompt_sd=1.0, output_median_tokens=100, output_sd=0.5
    )
    prompts, outputs = np.array(lengths.draw(rng(seed), 4000)).T
    assert np.median(prompts) == pytest.approx(1000, rel=0.08), f"seed {seed}"
    assert np.median(outputs) == pytest.approx(100, rel=0.08), f"seed {seed}"
    assert 1 <= prompts.min() <= prompts.max() <= 8192


@pytest.mark.parametrize("weights", [{}, {-1: 1.0}, {5: -1.0}, {5: float("nan")}, {5: 0.0}])
def test_weights_that_are_no_distribution_are_refused(weights: dict[int, float]) -> None:
    with pytest.raises(Rejected, match="weights"):
        Observed(weights, {1: 1.0})
