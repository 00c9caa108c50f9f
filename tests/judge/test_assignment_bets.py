"""Bets on the coin of an emergency rule: seldom wrong when the delay does nothing, soon right."""

from __future__ import annotations

import math

import pytest
from numpy.random import PCG64, Generator

from controller.judge.assignment_bets import Bets
from signals.errors import Rejected

P, SCALE = 0.2, 0.1


def lived(seed: int, episodes: int, *, delay_gains: float, rho: float = 0.8) -> list[Bets]:
    """Outcomes of one rule's life: alike from episode to episode, with or without an effect."""
    rng, mood, bets, path = Generator(PCG64(seed)), 0.0, Bets(), []
    for _ in range(episodes):
        mood = rho * mood + 0.05 * rng.normal()
        delayed = bool(rng.random() < P)
        outcome = min(1.0, max(0.0, 0.8 + mood + 0.03 * rng.normal() + delay_gains * delayed))
        bets = bets.after(outcome=outcome, delayed=delayed, p=P, scale=SCALE)
        path.append(bets)
    return path


def test_where_the_delay_does_nothing_a_verdict_is_as_rare_as_promised() -> None:
    seeds, alpha = range(1, 201), 0.05
    wrong = {
        side: sum(
            any(getattr(bets, side) >= 1 / alpha for bets in lived(seed, 60, delay_gains=0.0))
            for seed in seeds
        )
        for side in ("harmed", "improved")
    }
    assert all(count <= 0.05 * len(seeds) + 6 for count in wrong.values()), wrong


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_rule_that_costs_fifteen_points_is_found_out(seed: int) -> None:
    path = lived(seed, 150, delay_gains=0.15)
    assert any(bets.harmed >= 100 for bets in path), seed
    assert path[-1].improved < 1
    assert path[-1].delayed.mean > path[-1].prompt.mean


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_rule_that_saves_a_tenth_is_shown_to_help(seed: int) -> None:
    path = lived(seed, 150, delay_gains=-0.1)
    assert any(bets.improved >= 100 for bets in path), seed
    assert path[-1].harmed < 1


def test_a_bet_is_fair_whatever_the_outcome_before_the_coin_falls() -> None:
    for outcome in (0.0, 0.3, 1.0):
        for p in (0.05, 0.2, 0.5):
            before = Bets().after(outcome=0.6, delayed=False, p=p, scale=SCALE)
            ends = [
                before.after(outcome=outcome, delayed=delayed, p=p, scale=SCALE)
                for delayed in (False, True)
            ]
            for side in ("harmed", "improved"):
                fair = (1 - p) * getattr(ends[0], side) + p * getattr(ends[1], side)
                assert math.isclose(fair, getattr(before, side)), (outcome, p, side)


def test_the_first_episode_says_nothing_for_there_is_nothing_to_compare() -> None:
    bets = Bets().after(outcome=0.2, delayed=True, p=P, scale=SCALE)
    assert (bets.harmed, bets.improved, bets.n) == (1.0, 1.0, 1)


@pytest.mark.parametrize(
    ("outcome", "p"), [(1.2, 0.2), (-0.1, 0.2), (math.nan, 0.2), (0.5, 0.0), (0.5, 1.0)]
)
def test_what_is_no_share_and_what_is_no_coin_are_refused(outcome: float, p: float) -> None:
    with pytest.raises(Rejected):
        Bets().after(outcome=outcome, delayed=False, p=p, scale=SCALE)
