"""A drift alarm in the production step: trials wait for it, it is told once, and it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from controller.drift.blocks import DriftBlock
from controller.drift.following import Alarm, DriftState, Reference
from controller.drift.noting import drift_note, noted_drift
from controller.drift.settings import DriftSettings
from controller.drift.watch import Watch
from controller.looking import Looker
from controller.trials import Trial
from policies.guardrails import Finding
from policies.settings import Setting
from signals.events import MICROS
from tests.loop.cases import anything, emergency
from tests.loop.world import ADA, World

WORDS = "ttft:live is not what its load explains"
LIMITS = DriftSettings(block_s=10, stands_s=40, noted_s=20)


class Drifting(Looker):
    """Looks as the loop does; what it makes of each block has twelve for a log of TTFT."""

    def __init__(self, world: World) -> None:
        first = world.fleet.first("chat")
        super().__init__(
            world.declared, world.rows, first, lateness_s=2, rates=lambda name, intents: {}
        )

    def _drift(self, trial: Trial | None, closed_us: int, after_us: int) -> tuple[DriftBlock, ...]:
        return tuple(
            DriftBlock(
                to_us=one.to_us,
                digest="d",
                figures={"ttft:live": 12.0},
                context={"live": (1.0, 2.0, 3.0)},
            )
            for one in super()._drift(trial, closed_us, after_us)
        )


def watched(folder: Path, state: DriftState | None = None, **more: Any) -> World:
    """A world whose controller was started with what an earlier one had noted."""
    world = World(folder, quality=anything, **more)
    world.declared = msgspec.structs.replace(world.declared, drift=LIMITS)
    if state is not None:
        with world.store.write() as tx:
            tx.set_note(drift_note("chat"), msgspec.json.encode(state).decode())
    world.store.close()
    world.start_controller()
    world.run(1)
    return world


def alarmed(world_us: int) -> DriftState:
    """An alarm of this moment, and a reference that had learned something."""
    now_us = world_us - world_us % (LIMITS.block_s * MICROS)
    alarm = Alarm(
        since_us=now_us, last_us=now_us, words=WORDS, digest="d", figures={"ttft:live": 3.5}
    )
    reference = Reference(used_us=now_us, watches={"ttft:live": Watch(figure="ttft:live")})
    return DriftState(to_us=now_us, references={"d": reference}, alarm=alarm)


def start_us(folder: Path) -> int:
    world = World(folder, quality=anything)
    try:
        return world.clock_us()
    finally:
        world.store.close()


def noted(world: World) -> DriftState:
    with world.store.read() as tx:
        return noted_drift(tx.note(drift_note("chat")))


def test_no_trial_starts_while_an_alarm_stands_and_one_does_when_it_is_over(tmp_path: Path) -> None:
    world = watched(tmp_path, alarmed(start_us(tmp_path)))
    policy = world.approved(Setting(value=16))
    world.run(30)
    assert world.policy(policy.id).state == "approved"
    assert world.actions().count("guardrail.waits") == 1
    with world.store.read() as tx:
        waits = next(one for one in tx.audit() if one.action == "guardrail.waits")
    assert waits.details["guardrail"] == "drift"
    assert waits.details["figures"] == {"ttft:live": "3.5"}
    world.run(40, until=lambda: world.policy(policy.id).state == "on_trial")
    assert world.policy(policy.id).state == "on_trial"
    assert world.actions().count("drift.over") == 1
    assert noted(world).alarm is None


def test_an_evaluation_says_what_a_proposal_will_wait_for(tmp_path: Path) -> None:
    world = watched(tmp_path, alarmed(start_us(tmp_path)))
    found = world.operations.evaluate("chat", "active_cap", Setting(value=16))
    drift = [one for one in found.guardrails if one.guardrail == "drift"]
    assert drift == [
        Finding(
            guardrail="drift", outcome="wait", words=WORDS, figures={"ttft:live": 3.5}, at="start"
        )
    ]


def test_an_emergency_does_not_wait_for_an_alarm(tmp_path: Path) -> None:
    world = watched(tmp_path, alarmed(start_us(tmp_path)), mode="auto", rules=emergency())
    world.run(20, until=lambda: bool(world.policies("in_force")))
    assert world.policies("in_force")


def test_a_declared_change_explains_the_alarm_and_what_was_usual_is_forgotten(
    tmp_path: Path,
) -> None:
    world = watched(tmp_path, alarmed(start_us(tmp_path)))
    change = world.operations.declare_change("chat", "deploy", "a new driver", by=ADA)
    world.run(1)
    state = noted(world)
    assert (state.alarm, state.references) == (None, {})
    with world.store.read() as tx:
        over = next(one for one in tx.audit() if one.action == "drift.over")
    assert over.details["cause"] == f"explained by {change.id}: a new driver"
    world.run(25)
    assert noted(world).references == {}


def test_an_alarm_is_told_once_when_it_begins_and_survives_a_restart(tmp_path: Path) -> None:
    world = watched(tmp_path)
    learned = Watch(figure="ttft:live")
    for n in range(80):
        learned = learned.update((1.0, 2.0, 3.0, 3.0), 10.0 + 0.01 * (-1) ** (n % 3))
    world.loop._looker = Drifting(world)
    now_us = world.clock_us()
    world.loop._drift = DriftState(
        to_us=now_us, references={"d": Reference(used_us=now_us, watches={"ttft:live": learned})}
    )
    world.run(90, until=lambda: noted(world).alarm is not None)
    assert noted(world).alarm is not None
    world.run(15)
    assert world.actions().count("drift.alarm") == 1
    world.store.close()
    world.start_controller()
    policy = world.approved(Setting(value=16))
    world.run(5)
    assert world.policy(policy.id).state == "approved"
    assert world.actions().count("drift.alarm") == 1
