"""Hold and kill under full load: the model really runs, and the engine is read back in time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from policies.runtime_config import Patch, SettingChange
from tests.cli.running import until
from tests.contract.engines import Offered, embedded
from tests.engine_process import CONTROL_KEY, RunningEngine
from tests.loop.test_fleet import pin
from tests.loop.wired import Plant
from tests.loop.world import ADA

TRIES = 6
LIMIT_S = 1.0
"""To read-back, also when this machine has other work."""


@pytest.fixture
def plant(tmp_path: Path, engine: RunningEngine) -> Iterator[Plant]:
    """The session's engine, which is put back afterwards."""
    with closing(Plant(tmp_path, [engine.control_url], key=CONTROL_KEY, deadline_s=3.0)) as made:
        yield made
    with engine.actuator() as actuator:
        seen = actuator.read()
        inherit = tuple(SettingChange(knob=spec.name) for spec in seen.knobs)
        actuator.patch(
            Patch(
                change_id=f"test.{time.monotonic_ns()}",
                epoch=seen.epoch,
                expected=seen.expected,
                settings=inherit,
                hold=False,
            )
        )


def test_holds_and_kills_are_read_back_within_a_second_under_full_load(
    plant: Plant, engine: RunningEngine
) -> None:
    seed = random.SystemRandom().getrandbits(32)
    coins = random.Random(seed)
    under_test = next(embedded(engine))
    offered: list[Offered] = [under_test.offer(12, 60, "batch")]
    until(lambda: under_test.running() >= 4, "the engine is busy")
    took_s = []
    for _ in range(TRIES):
        if under_test.running() < 4:
            offered.append(under_test.offer(12, 60, "batch"))
        verb = coins.choice(("hold", "kill"))
        plant.operations.override(pin(3 + coins.randrange(3)), by=ADA)
        until(lambda: plant.tick() and plant.wished(), "the pin is in force")
        act = plant.operations.hold if verb == "hold" else plant.operations.kill
        began_s = time.monotonic()
        report = act("chat", "a test", by=ADA)
        took_s.append(time.monotonic() - began_s)
        assert [one.ok for one in report.replicas] == [True], f"seed {seed}: {report}"
        with engine.actuator() as actuator:
            seen = actuator.read()
        cap = seen.setting("active_cap")
        assert cap is not None
        assert seen.hold if verb == "hold" else cap.value == 8, f"seed {seed}: {verb}"
        plant.operations.release("chat", "a test", by=ADA)
    assert max(took_s) <= LIMIT_S, f"seed {seed}: {took_s}"
    for one in offered:
        assert len(one.answers()) == 12, "nothing was lost"
