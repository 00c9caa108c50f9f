"""The learner's turn: when it draws, what becomes of it, and that it can be made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.lessons import decisions, kept_notes, learning
from tests.loop.test_overrides import set_over
from tests.loop.world import World


def drew(world: World) -> bool:
    return any(one.policy_id is not None for one in decisions(world))


@pytest.mark.parametrize(
    ("mode", "states"),
    [("observe", {"observed"}), ("approve", {"pending"}), ("auto", {"applying", "on_trial"})],
)
def test_what_it_draws_goes_the_way_of_its_knobs_mode(
    tmp_path: Path, mode: str, states: set[str]
) -> None:
    world = learning(tmp_path, mode=mode)
    world.run(120, until=lambda: drew(world))
    world.run(1)
    found = decisions(world)[-1]
    assert found.choice is not None and found.policy_id is not None
    policy = world.policy(found.policy_id)
    assert policy.state in states
    assert policy.origin.kind == "learner" and policy.proposed_by == "learner:linear_thompson"
    assert policy.setting == found.choice.action.arms[0].setting
    assert policy.expected is not None and policy.expected.metric == "U"
    assert policy.expected.low <= policy.expected.estimate <= policy.expected.high
    assert mode == "auto" or world.cap() == 8


def test_a_record_has_the_chance_of_all_and_the_reason_of_each_that_had_none(
    tmp_path: Path,
) -> None:
    world = learning(tmp_path, mode="observe")
    world.run(120, until=lambda: drew(world))
    found = decisions(world)[-1]
    assert found.choice is not None
    chances = dict(zip(found.actions, found.choice.propensities, strict=True))
    assert sum(chances.values()) == pytest.approx(1.0)
    assert {action for action, chance in chances.items() if chance == 0} == set(found.masked)
    assert chances[found.chosen] == found.propensity
    assert "beyond what was tried" in found.masked["active_cap=2"]
    assert set(found.context) == {
        "hour_sin",
        "hour_cos",
        "target.arrivals_per_s",
        "live.offered_tokens_per_s",
        "batch.offered_tokens_per_s",
    }


def test_nothing_is_drawn_where_nothing_is_worth_a_trial_and_that_is_recorded_once(
    tmp_path: Path,
) -> None:
    world = learning(tmp_path, mode="auto", least_promise=0.999, least_gain=0.5)
    world.run(25)
    assert not decisions(world)
    (settled,) = decisions(world, drawn=False)
    assert settled.chosen == "active_cap=8"
    assert "likely to gain 0.5" in settled.masked["active_cap=4"]
    assert not [one for one in world.policies() if one.origin.kind == "learner"]


def test_it_does_nothing_that_its_budget_does_not_cover(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="auto", credit=0.0)
    world.run(25)
    assert not decisions(world)
    settled = decisions(world, drawn=False)[-1]
    assert "the safety budget is spent" in settled.masked["active_cap=4"]
    assert not [one for one in world.policies() if one.origin.kind == "learner"]


def test_a_learner_that_is_off_decides_and_notes_nothing(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="auto", algorithm="off")
    world.run(25)
    assert not decisions(world) and not decisions(world, drawn=False)
    assert kept_notes(world).decided_us == {}


@pytest.mark.parametrize("algorithm", ["linucb", "random_search", "aimd", "formula_only"])
def test_every_algorithm_may_be_asked_instead(tmp_path: Path, algorithm: str) -> None:
    world = learning(tmp_path, mode="observe", algorithm=algorithm)
    world.run(60, until=lambda: bool(decisions(world)))
    found = decisions(world)[-1]
    assert found.model == f"{algorithm}:1"
    assert found.choice is not None and found.choice.menu.mask[found.choice.index]


def test_where_a_person_has_his_hand_it_does_not_decide(tmp_path: Path) -> None:
    world = learning(tmp_path, mode="auto")
    world.run(1)
    set_over(world)
    world.run(30)
    assert not decisions(world) and not decisions(world, drawn=False)


def test_the_same_world_decides_the_same(tmp_path: Path) -> None:
    lives = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        world = learning(tmp_path / name, mode="observe")
        world.run(40)
        lives.append(decisions(world))
    assert lives[0] and lives[0] == lives[1]
