"""The bounded-mean bet: it is fair where the mean is at most m, and finds what the sign misses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from controller.judge.betting import bounded_e_path, bounded_e_value
from controller.judge.eprocess import e_value
from signals.errors import Rejected


def ever(values: NDArray[np.float64], limit: float) -> bool:
    return max(bounded_e_path(values, lo=-1.0, hi=1.0)) >= limit


@pytest.mark.parametrize("shape", ["coins", "rare losses", "rare gains"])
def test_capital_ever_reaches_20_in_at_most_one_stream_of_20_when_the_mean_is_zero(
    shape: str,
) -> None:
    rng, streams, length = np.random.default_rng(11), 1000, 200
    made = {
        "coins": lambda: rng.choice([-1.0, 1.0], length),
        "rare losses": lambda: rng.choice([0.05, -0.95], length, p=[0.95, 0.05]),
        "rare gains": lambda: rng.choice([-0.05, 0.95], length, p=[0.95, 0.05]),
    }
    reached = sum(ever(made[shape](), 20.0) for _ in range(streams))
    assert reached <= 0.05 * streams + 2 * (0.05 * 0.95 * streams) ** 0.5, f"seed 11: {reached}"


def test_one_bet_is_fair_to_the_last_digit() -> None:
    """Over both continuations of a past that are equally likely the capital keeps its mean."""
    past = [0.2, -0.4, 0.9]
    now = bounded_e_value(past, lo=-1.0, hi=1.0)
    up, down = (bounded_e_value([*past, x], lo=-1.0, hi=1.0) for x in (0.7, -0.7))
    assert (up + down) / 2 == pytest.approx(now, rel=1e-12)


def test_it_finds_a_rare_large_loss_that_the_sign_process_misses() -> None:
    rng = np.random.default_rng(5)
    d = np.clip(rng.normal(0.0, 0.1, 500), -0.5, 0.5)
    d[rng.random(500) < 0.05] = -2.0
    assert bounded_e_value(-d, lo=-2.0, hi=2.0) >= 100, "seed 5"
    assert e_value(list(-d), scale=1.0) < 100, "seed 5"


def test_a_value_out_of_bounds_is_refused_and_so_is_a_mean_that_nothing_can_beat() -> None:
    with pytest.raises(Rejected, match=r"1\.5 is not in"):
        bounded_e_value([0.0, 1.5], lo=-1.0, hi=1.0)
    with pytest.raises(Rejected, match="nan is not in"):
        bounded_e_value([float("nan")], lo=-1.0, hi=1.0)
    with pytest.raises(Rejected, match="mean"):
        bounded_e_value([0.0], lo=-1.0, hi=1.0, mean=1.0)


def test_no_values_and_a_larger_scale_change_nothing() -> None:
    values = [0.3, -0.2, 0.5]
    assert bounded_e_value([], lo=-1.0, hi=1.0) == 1.0
    assert bounded_e_value(values, lo=-1.0, hi=1.0) == pytest.approx(
        bounded_e_value([10 * v for v in values], lo=-10.0, hi=10.0)
    )
