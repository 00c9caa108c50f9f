"""The suite that every registered algorithm passes."""

from __future__ import annotations

import doctest
import importlib
import math
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import controller.learner
from controller.learner import replay
from controller.learner.port import MAX_REWARD, MAX_WEIGHT, Choice, Context, Menu, state_digest
from controller.learner.registry import ALGORITHMS, AnyLearner, loaded, saved
from signals.errors import Broken, Rejected
from tests.learner.menus import CAPS, CONTEXT, LEARNERS, SECOND, WITH_LAW, cap, law, menu, taught

EACH = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
MENU = menu(WITH_LAW, without=(4,))
NOW_US = 3 * 3600 * SECOND


def chosen(learner: AnyLearner, seed: int, *, of: Menu = MENU) -> Choice:
    return learner.choose(CONTEXT, of, seed=seed, at_us=NOW_US)


@pytest.mark.parametrize(
    "module", [each.name for each in pkgutil.iter_modules(controller.learner.__path__)]
)
def test_the_documented_examples_are_true(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"controller.learner.{module}")).failed == 0


def test_every_algorithm_is_registered_under_the_name_of_its_model() -> None:
    names = {name: learner.model.partition(":")[0] for name, learner in ALGORITHMS.items()}
    assert all(name == model for name, model in names.items())


@EACH
def test_the_same_seed_gives_the_same_choice(learner: AnyLearner) -> None:
    learner = taught(learner, seed=3)
    assert replay.written(chosen(learner, 5)) == replay.written(chosen(learner, 5))


@EACH
def test_choosing_and_learning_change_neither_the_learner_nor_what_it_is_given(
    learner: AnyLearner,
) -> None:
    learner = taught(learner, seed=4)
    before = (saved(learner), msgspec.json.encode(MENU), msgspec.json.encode(CONTEXT))
    chosen(learner, 1)
    learner.learn_one(CONTEXT, WITH_LAW[1], 0.4, at_us=NOW_US, decided_us=NOW_US)
    learner.evidence(at_us=NOW_US)
    assert (saved(learner), msgspec.json.encode(MENU), msgspec.json.encode(CONTEXT)) == before


@EACH
def test_what_is_saved_is_loaded_equal_and_goes_on_equally(learner: AnyLearner) -> None:
    learner = taught(learner, seed=6)
    back = loaded(saved(learner))
    assert back == learner and saved(back) == saved(learner)
    assert state_digest(back) == state_digest(learner)
    assert saved(taught(back, seed=7)) == saved(taught(learner, seed=7))
    assert chosen(back, 8) == chosen(learner, 8)


@EACH
def test_propensities_sum_to_one_and_are_nothing_where_masked(learner: AnyLearner) -> None:
    for seed in range(30):
        choice = chosen(taught(learner, seed=seed, outcomes=seed), seed)
        assert math.fsum(choice.propensities) == pytest.approx(1.0, abs=1e-12)
        assert all(p >= 0 for p in choice.propensities)
        masked = [p for p, may in zip(choice.propensities, MENU.mask, strict=True) if not may]
        assert masked == [0.0]
        assert MENU.mask[choice.index] and choice.propensity > 0


@EACH
def test_the_logged_propensities_are_those_it_chooses_with(learner: AnyLearner) -> None:
    """One over the propensity, summed where chosen, averages one for each action: seed 0 on."""
    learner = taught(learner, seed=9)
    draws = 400
    weights = np.zeros((draws, len(WITH_LAW)))
    logged = np.zeros((draws, len(WITH_LAW)))
    for seed in range(draws):
        choice = chosen(learner, seed)
        weights[seed, choice.index] = 1.0
        logged[seed] = choice.propensities
    off = (weights - logged).mean(axis=0)
    error = np.sqrt((logged * (1 - logged)).mean(axis=0) / draws)
    assert np.all(np.abs(off) <= 4.5 * error + 1e-12), (off, error)


@EACH
def test_it_survives_actions_and_features_that_appear_and_vanish(learner: AnyLearner) -> None:
    rng = np.random.default_rng(11)
    for index in range(60):
        count = int(rng.integers(1, len(WITH_LAW) + 1))
        picked = rng.choice(len(WITH_LAW), size=count, replace=False)
        actions = tuple(WITH_LAW[at] for at in picked)
        names = rng.choice(20, size=int(rng.integers(0, 5)), replace=False)
        context = Context.of({f"feature_{name}": float(rng.normal()) for name in names})
        at_us = index * SECOND
        choice = learner.choose(context, menu(actions), seed=index, at_us=at_us)
        assert math.fsum(choice.propensities) == pytest.approx(1.0, abs=1e-12)
        learner = learner.learn_one(
            context, choice.action, float(rng.random()), at_us=at_us, decided_us=at_us
        )


@EACH
def test_huge_and_duplicate_input_leaves_it_finite(learner: AnyLearner) -> None:
    huge = Context.of({"arrivals_per_s": 1.7e308, "offered_tokens_per_s": -1.7e308})
    for index in range(200):
        reward = MAX_REWARD if index % 2 else -MAX_REWARD
        learner = learner.learn_one(huge, CAPS[1], reward, at_us=0, decided_us=0, weight=MAX_WEIGHT)
    choice = learner.choose(huge, MENU, seed=1, at_us=0)
    assert all(math.isfinite(p) for p in choice.propensities)
    assert math.fsum(choice.propensities) == pytest.approx(1.0, abs=1e-12)


@EACH
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, MAX_REWARD * 2])
def test_a_reward_that_is_not_finite_is_refused_by_name(learner: AnyLearner, bad: float) -> None:
    with pytest.raises(Rejected) as caught:
        learner.learn_one(CONTEXT, CAPS[0], bad, at_us=0, decided_us=0)
    assert caught.value.field == "reward"


@EACH
def test_a_weight_that_is_nothing_and_a_reward_from_the_future_are_refused(
    learner: AnyLearner,
) -> None:
    with pytest.raises(Rejected, match="weight is not positive"):
        learner.learn_one(CONTEXT, CAPS[0], 0.5, at_us=0, decided_us=0, weight=0.0)
    with pytest.raises(Rejected, match="decided after"):
        learner.learn_one(CONTEXT, CAPS[0], 0.5, at_us=0, decided_us=1)


@EACH
def test_it_forgets_at_its_stated_rate(learner: AnyLearner) -> None:
    learner = taught(learner, seed=12)
    known = learner.evidence(at_us=NOW_US)
    if learner.half_life_s is None:
        assert known == 0.0
        return
    later_us = NOW_US + round(learner.half_life_s * SECOND)
    assert learner.evidence(at_us=later_us) == pytest.approx(known / 2, rel=1e-9)


@EACH
def test_a_late_reward_counts_by_the_age_of_its_decision(learner: AnyLearner) -> None:
    day_us = 24 * 3600 * SECOND
    early = learner.learn_one(CONTEXT, CAPS[1], 0.5, at_us=0, decided_us=0)
    late = learner.learn_one(CONTEXT, CAPS[1], 0.5, at_us=day_us, decided_us=0)
    assert late.evidence(at_us=day_us) == pytest.approx(early.evidence(at_us=day_us), rel=1e-12)


@EACH
def test_only_the_baseline_is_left_and_it_is_chosen(learner: AnyLearner) -> None:
    only = menu(WITH_LAW, without=(0, 1, 2, 3, 5), baseline=4)
    choice = chosen(taught(learner, seed=13), 2, of=only)
    assert choice.index == 4 and choice.propensity == 1.0


REPLAYING = """
import sys
from pathlib import Path
from controller.learner.registry import loaded
from controller.learner.replay import difference, read
for folder in sorted(Path(sys.argv[1]).iterdir()):
    learner = loaded((folder / "learner").read_bytes())
    found = {difference(read(path.read_bytes()), learner) for path in folder.glob("*.json")}
    print(folder.name, sorted(found))
"""


def test_choices_come_out_again_bit_for_bit_in_a_fresh_process(tmp_path: Path) -> None:
    for number, untaught in enumerate(LEARNERS.values()):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        learner = taught(untaught, seed=number)
        (folder / "learner").write_bytes(saved(learner))
        for seed in range(5):
            (folder / f"{seed}.json").write_bytes(replay.written(chosen(learner, seed)))
    done = subprocess.run(
        [sys.executable, "-c", REPLAYING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{n:02d} ['']" for n in range(len(LEARNERS))]


@EACH
def test_a_choice_that_was_tampered_with_does_not_replay(learner: AnyLearner) -> None:
    choice = chosen(learner, 1)
    other = next(index for index in MENU.allowed if index != choice.index)
    forged = msgspec.structs.replace(choice, index=other)
    assert "now" in replay.difference(forged, learner)
    assert "state" in replay.difference(msgspec.structs.replace(choice, state="0" * 16), learner)
    assert "made by" in replay.difference(msgspec.structs.replace(choice, model="x:1"), learner)


def test_what_is_no_learner_and_no_choice_is_not_loaded() -> None:
    with pytest.raises(Broken, match="can't be read"):
        loaded(b"\x81\xa4type\xa4Spam")
    with pytest.raises(Broken, match="can't be read"):
        replay.read(b"{}")


def test_an_action_is_known_by_what_it_sets_and_not_by_what_is_expected_of_it() -> None:
    assert cap(8).id == cap(8, expected=0.5).id
    assert len({cap(8).id, cap(4).id, law(8, 4).id, law(4, 8).id}) == 4
