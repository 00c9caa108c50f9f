"""A crossover through the whole loop: two halves of the replicas, an arm each, swapped by coin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.trials import arm_of, arms
from policies.policy import Policy
from policies.runtime_config import Arm, Patch, SettingChange
from policies.settings import Setting
from signals.events import MICROS
from tests.loop.cases import anything, emergency
from tests.loop.plant import Book
from tests.loop.world import ADA, World

SHORT: dict[str, Any] = {"washout_s": 1.0, "block_s": 6.0, "max_units": 30}


def crossing(folder: Path, *, replicas: int = 2, quality: Any = anything, **trial: Any) -> World:
    """A world whose router is declared to be random, after some seconds; no cap is faster."""
    world = World(folder, quality=quality, replicas=replicas, routing="random", **trial)
    world.faster_with_cap = False
    world.run(3)
    return world


def running(world: World, cap: int = 16, *, after_s: float = 2.0) -> Policy:
    """A policy in its first block, some seconds after that began."""
    policy = world.approved(Setting(value=cap))
    world.run(5, until=lambda: world.trial().units[-1].blocks[-1].began_us is not None)
    world.run(after_s)
    return world.policy(policy.id)


def having(world: World, arm: Arm | None) -> list[Book]:
    """The engines whose requests carry this arm now; None: those that carry no stamp."""
    stamps = [(engine, engine.stamp.trial) for engine in world.engines]
    return [engine for engine, stamp in stamps if (None if stamp is None else stamp.arm) == arm]


def ended(world: World, policy: Policy) -> Callable[[], bool]:
    return lambda: world.policy(policy.id).state in ("kept", "reverted", "expired")


def caps(world: World) -> list[int]:
    return [world.cap(engine) for engine in world.engines]


def test_each_half_has_an_arm_and_the_coin_says_which(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=4, max_units=200)
    running(world)
    plan = world.trial().plan
    assert plan.design == "crossover"
    assert sorted(plan.members) == ["r0", "r1", "r2", "r3"]
    met: set[Arm] = set()
    while met != {"baseline", "candidate"}:
        assert len(world.trial().units) < 20, "a fair coin shows both sides sooner"
        world.run(5)
        block = world.trial().units[-1].blocks[-1]
        if block.began_us is None:
            continue
        assert block.arm == arms(plan.seed, block.index)[0]
        met.add(block.arm)
        for engine in world.engines:
            stamp, arm = engine.stamp.trial, arm_of(plan, block, engine.replica)
            assert stamp is not None and (stamp.block, stamp.arm) == (block.index, arm)
            assert world.cap(engine) == (16 if arm == "candidate" else 8)


def test_an_odd_one_out_is_told_and_stays_on_the_baseline_without_a_stamp(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=3)
    running(world)
    assert [len(having(world, arm)) for arm in ("baseline", "candidate", None)] == [1, 1, 1]
    (odd,) = having(world, None)
    assert world.cap(odd) == 8
    with world.store.read() as tx:
        told = [entry.details for entry in tx.audit() if entry.action == "trial.left_out"]
    assert told == [{"replicas": [odd.replica]}]


def test_one_replica_or_a_router_that_is_not_random_means_a_switchback(tmp_path: Path) -> None:
    alone = crossing(tmp_path / "a", replicas=1)
    running(alone)
    routed = World(tmp_path / "b", quality=anything, replicas=2)
    routed.run(3)
    running(routed)
    for world in (alone, routed):
        assert (world.trial().plan.design, world.trial().plan.split) == ("switchback", ((), ()))
        assert len({engine.stamp.trial for engine in world.engines}) == 1, "all move as one"


def test_a_replica_whose_clock_is_off_takes_no_part(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, replicas=3, routing="random")
    ahead = world.engines[2]
    ahead._clock = lambda: world.instant().__class__(
        mono_s=world.now_s, wall_s=world.instant().wall_s + 30.0
    )
    ahead.die()
    world.run(3)
    running(world)
    assert sorted(world.trial().plan.members) == ["r0", "r1"]


def test_a_better_cap_is_kept_by_every_replica(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=3, quality=lambda cap, intent: cap >= 16, **SHORT)
    policy = running(world)
    world.run(600, until=ended(world, policy))
    kept = world.policy(policy.id)
    assert (kept.state, kept.verdict) == ("kept", "IMPROVED"), kept.cause
    world.run(2)
    assert caps(world) == [16, 16, 16]
    assert all(len(unit.blocks) == 1 for unit in world.trial().units)


def test_a_bad_cap_is_judged_harmed_and_read_back_without_it_everywhere(tmp_path: Path) -> None:
    world = crossing(tmp_path, quality=lambda cap, intent: cap >= 8, trip_misses=1000, **SHORT)
    policy = running(world, 2)
    world.run(600, until=ended(world, policy))
    undone = world.policy(policy.id)
    assert (undone.state, undone.verdict) == ("reverted", "HARMED"), undone.cause
    assert caps(world) == [8, 8]
    assert having(world, None) == world.engines
    (first, *_) = [unit for unit in world.trial().units if unit.judged]
    assert set(first.values) == {"baseline", "candidate"}


def test_a_block_begins_when_the_last_of_both_halves_shows_it(tmp_path: Path) -> None:
    world = crossing(tmp_path)
    world.engines[1].reachable = False
    world.fleet.of("chat")[1]._read_at_s = world.now_s
    world.approved(Setting(value=16))
    world.run(3)
    (unit,) = world.trial().units
    assert unit.blocks[0].began_us is None
    world.engines[1].reachable = True
    back_us = round(world.engine_instant().wall_s * MICROS)
    world.run(2)
    began_us = world.trial().units[0].blocks[0].began_us
    assert began_us is not None and began_us >= back_us


def test_a_death_under_the_candidate_is_put_down_to_it(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=4)
    policy = running(world)
    having(world, "candidate")[-1].die()
    world.run(2)
    undone = world.policy(policy.id)
    assert (undone.state, undone.cause) == ("reverted", "HARMED: engine death")
    assert caps(world) == [8] * 4


def test_a_death_under_the_baseline_only_voids_the_unit(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=4)
    policy = running(world)
    having(world, "baseline")[-1].die()
    world.run(2)
    first, second = world.trial().units
    assert first.void == "engine restarted"
    assert second.blocks[0].began_us is not None, "a fresh unit runs"
    assert world.policy(policy.id).state == "on_trial"


def test_a_death_of_one_that_takes_no_part_changes_nothing(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=3)
    running(world)
    having(world, None)[0].die()
    world.run(2)
    (unit,) = world.trial().units
    assert unit.void is None


@pytest.mark.parametrize("replica", [0, 1])
def test_a_replica_that_refuses_its_arm_ends_the_trial_as_a_failed_read_back(
    tmp_path: Path, replica: int
) -> None:
    world = crossing(tmp_path)
    policy = world.approved(Setting(value=16))
    world.engines[replica].refuses = True
    world.run(25, until=lambda: world.policy(policy.id).state == "reverting")
    world.engines[replica].refuses = False
    world.run(2)
    undone = world.policy(policy.id)
    assert (undone.state, undone.verdict) == ("reverted", "HARMED")
    assert "failed read-back" in (undone.cause or "") and f"by r{replica} " in (undone.cause or "")
    assert caps(world) == [8, 8]


def test_a_replica_that_is_gone_a_minute_after_its_block_ends_the_trial_undecided(
    tmp_path: Path,
) -> None:
    world = crossing(tmp_path)
    policy = running(world)
    away, here = world.engines[1], world.engines[0]
    away.reachable = False
    world.run(65)
    assert world.policy(policy.id).state == "on_trial", "it may come back"
    world.run(6)
    undone = world.policy(policy.id)
    assert (undone.state, undone.verdict) == ("reverted", "INCONCLUSIVE")
    assert "r1 of the frozen split" in (undone.cause or "")
    assert (world.cap(here), world.cap(away)) == (8, 8), "what was away fell back by itself"


def test_an_absence_makes_the_block_s_end_be_seen_later_and_the_candidate_rest(
    tmp_path: Path,
) -> None:
    world = crossing(tmp_path)
    running(world)
    (unit,) = world.trial().units
    here, away = having(world, "candidate")[0], having(world, "baseline")[0]
    away.reachable = False
    world.run(25)
    assert len(world.trial().units) == 1
    assert world.cap(here) == 8, "no candidate outlives its block by much"
    before = here.read().version
    world.run(3)
    assert here.read().version == before, "nor is it sent again and again"
    away.reachable = True
    world.run(2)
    ended = world.trial().units[0].blocks[0]
    assert ended.ended_us == (unit.blocks[0].began_us or 0) + 10 * MICROS
    assert len(world.trial().units) == 2


def test_a_controller_that_was_away_takes_nobody_for_lost(tmp_path: Path) -> None:
    world = crossing(tmp_path)
    policy = running(world)
    world.run(60, loop=False)
    assert caps(world) == [8, 8], "the candidate outlives no dead controller"
    world.engines[1].reachable = False
    world.start_controller()
    world.run(2)
    assert world.policy(policy.id).state == "on_trial"
    world.engines[1].reachable = True
    world.run(3)
    assert world.policy(policy.id).state == "on_trial"
    assert len(world.trial().units) == 2


def test_errors_trip_on_the_candidate_s_replicas_alone(tmp_path: Path) -> None:
    world = crossing(tmp_path, max_units=200)
    policy = running(world, after_s=2.0)
    block = world.trial().units[-1].blocks[-1]
    world.rows.errors[world.trial().plan.id, block.index] = 20
    world.rows.at = having(world, "baseline")[0].replica
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"
    world.rows.at = having(world, "candidate")[0].replica
    world.run(1)
    undone = world.policy(policy.id)
    assert undone.verdict == "HARMED" and "error rate" in (undone.cause or "")


def test_a_latency_trip_rests_the_candidate_s_half_while_both_run(tmp_path: Path) -> None:
    world = crossing(tmp_path, quality=lambda cap, intent: cap < 16, trip_misses=10)
    running(world, after_s=0.0)
    world.run(9, until=lambda: world.trial().units[0].tripped)
    (unit,) = world.trial().units
    assert unit.tripped and unit.void is None
    world.run(0.5)
    assert caps(world) == [8, 8]
    assert len(having(world, "candidate")) == 1, "it still counts by assignment"
    world.run(14)
    assert world.trial().units[0].d["U"] < 0


def test_a_slow_minute_of_both_halves_trips_nothing(tmp_path: Path) -> None:
    world = crossing(tmp_path, quality=lambda cap, intent: False, trip_misses=10)
    running(world, after_s=0.0)
    world.run(9)
    assert not world.trial().units[0].tripped


def test_a_gap_in_the_telemetry_of_any_replica_voids_the_unit(tmp_path: Path) -> None:
    world = crossing(tmp_path)
    running(world)
    world.rows.at = "r1"
    world.rows.incomplete.add((world.trial().plan.id, 0))
    world.run(12)
    assert world.trial().units[0].void == "incomplete telemetry"


def test_a_pause_brings_both_halves_to_the_baseline_and_a_fresh_unit_follows(
    tmp_path: Path,
) -> None:
    world = crossing(tmp_path)
    policy = running(world)
    world.operations.pause(policy.id, "look", by=ADA)
    world.run(2)
    assert caps(world) == [8, 8] and having(world, None) == world.engines
    world.operations.resume(policy.id, by=ADA)
    world.run(2)
    first, second = world.trial().units
    assert first.void == "paused by person"
    assert second.blocks[0].began_us is not None
    assert sorted(caps(world)) == [8, 16]


def test_a_hold_leaves_each_half_as_it_is_and_a_release_goes_on(tmp_path: Path) -> None:
    world = crossing(tmp_path)
    policy = running(world)
    before = caps(world)
    world.operations.hold("chat", "look", by=ADA)
    world.run(25)
    assert caps(world) == before
    world.operations.release("chat", "done", by=ADA)
    world.run(3)
    assert world.policy(policy.id).state == "on_trial"
    assert len(having(world, "candidate")) == len(having(world, "baseline")) == 1


def test_a_kill_ends_it_on_every_replica(tmp_path: Path) -> None:
    world = crossing(tmp_path, replicas=3)
    policy = running(world)
    report = world.operations.kill("chat", "enough", by=ADA)
    assert [reached.ok for reached in report.replicas] == [True] * 3
    assert caps(world) == [8, 8, 8] and having(world, None) == world.engines
    world.run(3)
    assert world.policy(policy.id).state == "reverted"
    assert world.trial().state == "done"
    assert caps(world) == [8, 8, 8]


def test_a_foreign_change_of_any_replica_ends_the_trial(tmp_path: Path) -> None:
    world = crossing(tmp_path)
    policy = running(world)
    engine = world.engines[1]
    seen = engine.read()
    change = SettingChange(knob="step_token_budget", value=64)
    engine.patch(
        Patch(
            change_id="x",
            epoch=seen.epoch,
            expected=seen.expected,
            settings=(change,),
            trial=seen.trial,
        )
    )
    world.run(2)
    undone = world.policy(policy.id)
    assert (undone.cause, undone.verdict) == ("foreign change", "INCONCLUSIVE")


@pytest.mark.parametrize("worse", ["baseline", "candidate", None])
def test_an_emergency_counts_against_the_half_that_missed_more(
    tmp_path: Path, worse: Arm | None
) -> None:
    bad = {"baseline": 8, "candidate": 16, None: -1}[worse]
    world = crossing(
        tmp_path,
        quality=lambda cap, intent: cap != bad,
        mode="auto",
        rules=emergency(),
        trip_misses=1000,
    )
    policy = running(world, after_s=5.0)
    world.faster_with_cap = True
    world.run(20, until=lambda: world.policy(policy.id).state == "paused")
    assert world.policy(policy.id).state == "paused"
    cut = world.trial().units[-1]
    if worse is None:
        assert cut.void is not None and cut.d == {}
    else:
        assert cut.judged and cut.d == {"U": -1.0 if worse == "candidate" else 1.0}
