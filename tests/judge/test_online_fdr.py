"""The level of each trial of a stream, and what it bounds: the share of useless keeps."""

from __future__ import annotations

from random import Random

import pytest

from controller.judge.online_fdr import barren, level

RATE = 0.05
STREAMS, TRIALS = 1500, 40


def stream(rng: Random, *, useful: float, power: float) -> tuple[int, int]:
    """(useless, all) changes kept of one stream of trials, each judged at its own level."""
    kept: list[int] = []
    useless = 0
    for begun in range(TRIALS):
        alpha = level(RATE, begun=begun, kept=kept)
        helps = rng.random() < useful
        if rng.random() < (power if helps else alpha):
            kept.append(begun + 1)
            useless += not helps
    return useless, len(kept)


@pytest.mark.parametrize("useful", [0.0, 0.1, 0.3, 0.7])
def test_the_share_of_useless_keeps_stays_below_the_rate(useful: float) -> None:
    seed = round(1000 * useful) + 7
    rng = Random(seed)
    found = [stream(rng, useful=useful, power=0.8) for _ in range(STREAMS)]
    shares = [useless / every if every else 0.0 for useless, every in found]
    mean = sum(shares) / STREAMS
    error = (sum((x - mean) ** 2 for x in shares) / STREAMS**2) ** 0.5
    assert mean <= RATE + 2 * error, f"seed {seed}: {mean:.4f} of the keeps are useless"
    assert useful == 0.0 or sum(every for _, every in found) > STREAMS


def test_what_was_promised_is_never_more_than_what_was_kept_allows() -> None:
    for seed in range(50):
        rng = Random(seed)
        kept: list[int] = []
        paid = 0.0
        for begun in range(60):
            paid += level(RATE, begun=begun, kept=kept)
            assert paid <= RATE * max(1, len(kept)) + 1e-12, f"seed {seed}, trial {begun + 1}"
            if rng.random() < rng.choice([0.05, 0.6]):
                kept.append(begun + 1)


def test_levels_fall_while_nothing_is_kept_and_rise_with_what_is() -> None:
    levels = [level(RATE, begun=n, kept=()) for n in range(30)]
    assert levels == sorted(levels, reverse=True)
    assert level(RATE, begun=30, kept=[30]) > 100 * levels[-1]
    assert min(level(RATE, begun=n, kept=range(1, n + 1)) for n in range(1, 64)) > 0.01


def test_a_stream_affords_only_so_many_trials_in_vain() -> None:
    assert barren(RATE, least=1e-4) == 18
    assert barren(RATE, least=0.005) == 1
