"""What the two bandits know: the regression under them, and what they make of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controller.learner.features import BIAS, MAX_SIZE, joint, squashed
from controller.learner.linear_thompson import LinearThompson
from controller.learner.linucb import LinUcb
from controller.learner.port import Action, Arm, Context
from controller.learner.ridge import Ridge
from controller.learner.settings import LearnerSettings
from policies.settings import Setting
from tests.learner.menus import CAPS, CONTEXT, LADDER, SECOND, cap, law, menu

HOUR_US = 3600 * SECOND
BANDITS = pytest.mark.parametrize("fresh", [LinearThompson(), LinUcb()], ids=["thompson", "ucb"])
Bandit = LinearThompson | LinUcb


def by_hand(ridge: Ridge, at_us: int) -> tuple[np.ndarray, np.ndarray]:
    """Precision and mean of the posterior, from a factor."""
    known = ridge.posterior(ridge.names, at_us=at_us)
    lower = np.tril(known.factor)
    return lower @ lower.T, known.mean


def test_forgetting_adds_the_prior_back_as_the_usual_update_does() -> None:
    """A ← γA + (1 − γ)Λ, step by step, is the precision that the sums give."""
    rng = np.random.default_rng(21)
    ridge = Ridge(half_life_s=3600.0, noise_sd=0.5, prior_sd=2.0, max_features=8)
    names = ("x", "y")
    prior = np.eye(2) / 4.0
    a, last_us = prior.copy(), 0
    for _ in range(30):
        at_us = last_us + int(rng.integers(1, HOUR_US))
        keep = 2.0 ** -((at_us - last_us) / HOUR_US)
        x = rng.normal(size=2)
        a = keep * a + (1 - keep) * prior + np.outer(x, x) / 0.25
        ridge = ridge.learned(
            names, x, float(rng.normal()), at_us=at_us, decided_us=at_us, weight=1.0
        )
        last_us = at_us
    assert by_hand(ridge, last_us)[0] == pytest.approx(a, rel=1e-9)


def test_after_long_silence_only_the_prior_is_left() -> None:
    ridge = Ridge(half_life_s=60.0, noise_sd=0.1, prior_sd=2.0, max_features=8)
    ridge = ridge.learned((BIAS, "x"), np.ones(2), 5.0, at_us=0, decided_us=0, weight=1.0)
    precision, mean = by_hand(ridge, 24 * HOUR_US)
    assert mean == pytest.approx(np.zeros(2), abs=1e-9)
    assert precision == pytest.approx(np.diag([1 / 400.0, 1 / 4.0]))


def test_outcomes_may_come_in_any_order() -> None:
    rng = np.random.default_rng(22)
    outcomes = [
        (int(rng.integers(HOUR_US)), rng.normal(size=2), float(rng.normal())) for _ in range(40)
    ]
    found = []
    for order in (range(40), rng.permutation(40)):
        ridge = Ridge(half_life_s=1800.0, noise_sd=0.3, prior_sd=1.0, max_features=8)
        for at in order:
            decided_us, x, y = outcomes[at]
            ridge = ridge.learned(
                ("x", "y"), x, y, at_us=HOUR_US, decided_us=decided_us, weight=1.0
            )
        found.append(by_hand(ridge, HOUR_US))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-6)


def test_an_outcome_from_before_the_last_does_not_turn_time_back() -> None:
    ridge = Ridge(half_life_s=3600.0, noise_sd=0.1, prior_sd=1.0, max_features=4)
    ridge = ridge.learned(("x",), np.ones(1), 1.0, at_us=HOUR_US, decided_us=HOUR_US, weight=1.0)
    ridge = ridge.learned(("x",), np.ones(1), 1.0, at_us=0, decided_us=0, weight=1.0)
    assert ridge.at_us == HOUR_US
    assert ridge.weight_at(at_us=HOUR_US) == pytest.approx(1.5)


def test_features_beyond_the_bound_are_left_out_until_older_ones_are_forgotten() -> None:
    ridge = Ridge(half_life_s=60.0, noise_sd=0.1, prior_sd=1.0, max_features=2)
    ridge = ridge.learned(("a", "b"), np.ones(2), 1.0, at_us=0, decided_us=0, weight=1.0)
    ridge = ridge.learned(("a", "c"), np.ones(2), 1.0, at_us=0, decided_us=0, weight=1.0)
    assert ridge.names == ("a", "b")
    later = ridge.learned(
        ("a", "c"), np.ones(2), 1.0, at_us=HOUR_US, decided_us=HOUR_US, weight=1.0
    )
    assert later.names == ("a", "c")
    assert by_hand(later, HOUR_US)[1] == pytest.approx([0.5, 0.5], abs=0.01)


@BANDITS
def test_it_learns_which_action_is_best_in_which_context(fresh: Bandit) -> None:
    """Few arrivals: high caps pay; many: low ones. Seed 23."""
    rng = np.random.default_rng(23)
    learner: Bandit = fresh
    calm, busy = Context.of({"arrivals_per_s": 0.0}), Context.of({"arrivals_per_s": 100.0})
    for index in range(300):
        action = CAPS[int(rng.integers(len(CAPS)))]
        height = action.arms[0].positions[0] / 4
        for context, slope in ((calm, 0.5), (busy, -0.5)):
            reward = 0.5 + slope * (height - 0.5) + float(rng.normal(0, 0.05))
            learner = learner.learn_one(context, action, reward, at_us=index, decided_us=index)
    choices = [learner.choose(where, menu(CAPS), seed=1, at_us=300) for where in (calm, busy)]
    best = [int(np.argmax(choice.propensities)) for choice in choices]
    assert best == [len(CAPS) - 1, 0]
    assert min(max(choice.propensities) for choice in choices) > 0.9


@BANDITS
def test_neighbours_on_a_ladder_teach_each_other(fresh: Bandit) -> None:
    """With only the ends tried, the value next to the good end is preferred to the far one."""
    learner: Bandit = fresh
    for _ in range(30):
        for at, reward in ((0, 0.1), (4, 0.9)):
            learner = learner.learn_one(CONTEXT, CAPS[at], reward, at_us=0, decided_us=0)
    known = learner.sums.posterior(learner.sums.names, at_us=0)
    names, x = joint(CONTEXT, CAPS)
    assert names == known.names
    values = x @ known.mean
    assert list(values) == sorted(values)


@BANDITS
def test_every_allowed_action_keeps_its_share_of_the_uniform_part(fresh: Bandit) -> None:
    learner: Bandit = fresh
    for _ in range(200):
        for action in CAPS:
            reward = 1.0 if action == CAPS[2] else 0.0
            learner = learner.learn_one(CONTEXT, action, reward, at_us=0, decided_us=0)
    choice = learner.choose(CONTEXT, menu(CAPS, without=(4,)), seed=1, at_us=0)
    assert choice.propensities == pytest.approx(
        (0.05 / 4, 0.05 / 4, 0.95 + 0.05 / 4, 0.05 / 4, 0.0)
    )


def test_what_was_not_tried_for_long_is_tried_again() -> None:
    learner = LinearThompson.of(LearnerSettings(half_life_s=3600))
    for _ in range(50):
        for action in CAPS:
            reward = 0.9 if action == CAPS[2] else 0.3
            learner = learner.learn_one(CONTEXT, action, reward, at_us=0, decided_us=0)
    sure, unsure = (
        learner.choose(CONTEXT, menu(CAPS), seed=5, at_us=at_us) for at_us in (0, 24 * HOUR_US)
    )
    assert sure.propensities[2] > 0.95 > 0.6 > unsure.propensities[2]


def test_what_the_plant_expects_decides_until_outcomes_speak() -> None:
    caps = tuple(cap(value, expected=expected) for value, expected in ((4, 0.2), (8, 3.0)))
    fresh = LinUcb().choose(CONTEXT, menu(caps), seed=1, at_us=0)
    assert fresh.propensities[1] > 0.9
    learner = LinUcb()
    for _ in range(50):
        learner = learner.learn_one(CONTEXT, caps[1], 0.1, at_us=0, decided_us=0)
        learner = learner.learn_one(CONTEXT, caps[0], 0.4, at_us=0, decided_us=0)
    assert learner.choose(CONTEXT, menu(caps), seed=1, at_us=0).propensities[0] > 0.9


def test_actions_that_nothing_tells_apart_share_evenly() -> None:
    twins = tuple(Action.of(Arm.on((value,), "cap", Setting(value=value))) for value in (4, 8))
    assert LinUcb().choose(Context(), menu(twins), seed=1, at_us=0).propensities == (0.5, 0.5)


def test_a_law_lies_among_its_values_and_has_a_feature_of_its_own() -> None:
    names, x = joint(Context(), (cap(2), cap(32), law(32, 2)))
    found = [dict(zip(names, row, strict=True)) for row in x]
    for knot in range(4):
        name = f"active_cap:{knot}/4"
        assert found[2][name] == (found[0][name] + found[1][name]) / 2
    assert [row["active_cap:law"] for row in found] == [0.0, 0.0, 1.0]


def test_a_long_ladder_has_no_more_features_than_a_short_one() -> None:
    long = tuple(range(1, 257))
    names, _ = joint(CONTEXT, (Action.of(Arm.on(long, "cap", Setting(value=100))),))
    short, _ = joint(CONTEXT, (cap(8),))
    assert len(names) == len(short) and len(LADDER) == 5


def test_figures_of_any_size_stay_small_and_keep_their_sign() -> None:
    assert squashed(0.0) == 0.0
    assert [squashed(math.copysign(1e308, sign)) for sign in (1, -1)] == [MAX_SIZE, -MAX_SIZE]
    assert squashed(10) < squashed(100) < squashed(1000)
