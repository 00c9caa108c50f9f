"""What becomes of a crossover when one of its replicas is away, or back and not as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loop.test_crossover import caps, crossing, having, running
from tests.loop.world import ADA


def test_a_replica_that_comes_back_to_a_block_that_waits_has_not_failed_to_apply_it(
    tmp_path: Path,
) -> None:
    world = crossing(tmp_path, replicas=4)
    policy = running(world)
    world.operations.pause(policy.id, "look", by=ADA)
    world.run(2)
    world.engines[1].reachable = False
    world.operations.resume(policy.id, by=ADA)
    world.run(45)
    assert world.policy(policy.id).state == "on_trial", "nor have those that fell back meanwhile"
    world.engines[1].reachable = True
    world.run(3)
    assert world.policy(policy.id).state == "on_trial"
    assert world.trial().units[-1].blocks[-1].began_us is not None
    assert sorted(caps(world)) == [8, 8, 16, 16]


@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
def test_a_replica_that_restarts_with_its_clock_off_ends_the_trial_undecided(
    tmp_path: Path, replica: int, off_s: float
) -> None:
    world = crossing(tmp_path, max_units=200)
    policy, off = running(world), world.engines[replica]
    while off not in having(world, "baseline"):
        assert len(world.trial().units) < 20, "a fair coin shows both sides sooner"
        world.run(1)
    off._clock = lambda: world.instant().__class__(
        mono_s=world.now_s, wall_s=world.instant().wall_s + off_s
    )
    off.die()
    world.run(5)
    undone = world.policy(policy.id)
    assert (undone.state, undone.verdict) == ("reverted", "INCONCLUSIVE")
    assert "clocks" in (undone.cause or "")
    assert caps(world) == [8, 8]
