"""An engine that ran out of memory: the trial ends, the wall is noted, and nothing goes beyond."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from numpy.random import PCG64, Generator

from controller.memory_wall import guard_wall, heed_wall, walls
from controller.notes import noted
from controller.plant.exhaustions import Exhaustion
from controller.plant.memory import predicted_bytes
from controller.plant.settings import PlantSettings
from controller.state import Draft, LoopState, PlantInput, Seen
from policies.settings import Setting
from signals.errors import Conflict
from signals.events import MEMORY_EXHAUSTED, MICROS, KvLayout, StepMoments
from tests.loop.cases import anything, emergency, in_arm
from tests.loop.world import World

LAYOUT = KvLayout(layers=2, kv_heads=2, head_dim=64, value_bits=16, block_tokens=16, blocks=4096)
MODEL = PlantSettings()


def world_of(folder: Path, **more: Any) -> World:
    world = World(folder, quality=anything, **more)
    world.rows.kv = LAYOUT
    world.run(1)
    return world


def dies(world: World) -> None:
    """The engine runs out of memory now, comes back as another, and tells of it."""
    row = world._request("batch", 10_000_000 + round(world.now_s * 10), world.engine)
    now_us = world.clock_us()
    world.rows.requests.append(
        msgspec.structs.replace(row, status="error", error=MEMORY_EXHAUSTED, finished_us=now_us)
    )


def known(world: World) -> dict[str, str]:
    with world.store.read() as tx:
        return noted(tx, "chat")


def entries(world: World, action: str) -> list[dict[str, object]]:
    with world.store.read() as tx:
        return [one.details for one in tx.audit() if one.action == action]


def test_a_candidate_that_exhausts_memory_is_harmed_with_that_cause_at_once(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    policy = world.approved(Setting(value=16))
    world.run(120, until=in_arm(world, "candidate"))
    world.run(2)
    dies(world)
    world.run(4)
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("reverted", "HARMED")
    assert ended.cause == "HARMED: memory exhausted"
    assert entries(world, "trial.tripped")[0]["cause"] == "memory exhausted"
    met = entries(world, "memory.exhausted")
    assert len(met) == 1
    assert met[0]["cap"] == 16
    assert [wall.exhausted_us > 0 for wall in walls(known(world)).met.values()] == [True]


def test_one_in_a_baseline_arm_is_noted_and_is_no_verdict(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    policy = world.approved(Setting(value=16))
    world.run(120, until=in_arm(world, "baseline"))
    world.run(2)
    dies(world)
    world.run(4)
    assert world.policy(policy.id).state == "on_trial"
    assert entries(world, "memory.exhausted")[0]["cap"] == 8


def test_nothing_beyond_the_wall_is_admitted_of_anybody_and_a_restart_forgets_nothing(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    dies(world)
    world.run(4)
    assert len(entries(world, "memory.exhausted")) == 1
    world.store.close()
    world.start_controller()
    world.run(4)
    assert len(entries(world, "memory.exhausted")) == 1
    with pytest.raises(Conflict, match="memory was exhausted before"):
        world.approved(Setting(value=16))
    found = world.operations.evaluate("chat", "active_cap", Setting(value=16))
    wall = next(one for one in found.guardrails if one.guardrail == "wall")
    assert wall.outcome == "deny"
    assert wall.figures["needed_bytes"] > wall.figures["allowed_bytes"]
    assert world.approved(Setting(value=4)).state == "approved"


def test_an_emergency_that_goes_down_acts_all_the_same(tmp_path: Path) -> None:
    world = world_of(tmp_path, mode="auto", rules=emergency())
    dies(world)
    world.run(20, until=lambda: world.cap() == 4)
    assert world.cap() == 4


def test_without_an_announced_layout_it_is_told_and_there_is_no_wall(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.rows.kv = None
    dies(world)
    world.run(4)
    assert len(entries(world, "memory.exhausted")) == 1
    assert guard_wall(known(world), now_us=world.clock_us(), model=MODEL) is None
    assert world.approved(Setting(value=16)).state == "approved"


def plant(context: float, *lives: Exhaustion, kv: KvLayout = LAYOUT) -> PlantInput:
    return PlantInput(
        moments=StepMoments(),
        curve=(),
        prefill_per_decode=0.0,
        arrivals=(),
        offered=(),
        deadline_s={},
        drain_p95_s=1.0,
        fingerprint="m/w/n",
        kv=kv,
        context_tokens=context,
        exhausted=lives,
    )


def looked(context: float, *lives: Exhaustion, kv: KvLayout = LAYOUT) -> Seen:
    seen = plant(context, *lives, kv=kv)
    return Seen(observed=None, features={}, cursor=0, closed_us=0, plant=seen)


def heeded(state: LoopState, seen: Seen, now_us: int) -> Draft:
    """A look at it, and another one at the same."""
    draft = Draft(state, now_us=now_us, rng=Random(0))
    heed_wall(draft, seen)
    heed_wall(draft, seen)
    return draft


def test_whatever_happens_the_wall_only_comes_closer_and_what_died_is_not_admitted(
    tmp_path: Path,
) -> None:
    state = state_of(tmp_path)
    for seed in range(1, 41):
        assert closer(state, seed) > 0


def closer(state: LoopState, seed: int) -> int:
    """Random exhaustions, contexts and times, through the loop's own note; how many guards."""
    rng, now_us, before_bytes = Generator(PCG64(seed)), 0, LAYOUT.blocks * 2**30
    died: list[int] = []
    guards = 0
    for life in range(12):
        now_us += int(rng.integers(1, 7200)) * MICROS
        context, cap = float(rng.uniform(20, 2000)), int(rng.choice([2, 4, 8, 16, 32, 64]))
        ended = Exhaustion(replica="r0", incarnation=f"i{life}", at_us=now_us, cap=cap)
        hit = [ended] if rng.random() < 0.4 else []
        draft = heeded(state, looked(context, *hit), now_us)
        assert len(draft.facts) == len(hit), seed
        state = msgspec.structs.replace(state, noted=dict(draft.noted))
        died += [predicted_bytes(LAYOUT, cap=cap, context_tokens=context) for _ in hit]
        guard = guard_wall(state.noted, now_us=now_us, model=MODEL)
        assert (guard is None) == (not died), seed
        if guard is not None:
            assert guard.allowed_bytes < guard.wall_bytes <= min(died), seed
            assert guard.wall_bytes <= before_bytes, seed
            before_bytes = guard.wall_bytes
            guards += 1
    other = msgspec.structs.replace(LAYOUT, blocks=64)
    after = heeded(state, looked(100.0, kv=other), now_us)
    assert guard_wall(after.noted, now_us=now_us, model=MODEL) is None
    return guards


def state_of(folder: Path) -> LoopState:
    world = World(folder, quality=anything)
    try:
        world.run(0.1)
        assert world.loop._loaded is not None
        return world.loop._loaded[1]
    finally:
        world.store.close()
