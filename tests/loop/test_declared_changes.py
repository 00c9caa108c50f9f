"""Trials wait for what people and pipelines declare, for freeze windows, and for each other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.config.guardrails import FreezeWindowSettings, GuardrailSettings
from policies.settings import Setting
from signals.errors import Conflict, NotFound, Rejected
from tests.loop.cases import anything, emergency
from tests.loop.plant import START_S
from tests.loop.world import ADA, World

SETTLE_S = 20


def world_of(folder: Path, *, freeze: tuple[Any, ...] = (), **more: Any) -> World:
    guardrails = GuardrailSettings(settle_s=SETTLE_S, freeze=freeze)
    world = World(folder, quality=anything, guardrails=guardrails, **more)
    world.run(1)
    return world


def on_trial(world: World) -> str:
    policy = world.approved(Setting(value=16))
    world.run(30, until=lambda: world.policy(policy.id).state == "on_trial")
    return policy.id


def test_a_deploy_suspends_the_trial_voids_its_unit_and_it_goes_on_by_itself(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    policy_id = on_trial(world)
    world.run(30, until=lambda: world.cap() == 16)
    change = world.operations.declare_change("chat", "deploy", "model v12", by=ADA)
    world.run(1)
    policy = world.policy(policy_id)
    assert (policy.state, policy.cause) == ("paused", f"{change.id} (deploy: model v12) is open")
    assert (world.trial().state, world.trial().paused_by) == ("paused", "change")
    assert world.trial().units[-1].void == "paused by change"
    assert world.cap() == 8
    with pytest.raises(Conflict, match="suspends it"):
        world.operations.resume(policy_id, by=ADA)
    units = len(world.trial().units)
    world.operations.end_change(change.id, by=ADA)
    world.run(SETTLE_S - 1)
    assert world.policy(policy_id).state == "paused"
    world.run(2)
    assert world.policy(policy_id).state == "on_trial"
    assert len(world.trial().units) == units + 1


def test_no_trial_begins_while_a_change_is_open_and_why_is_recorded_once(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    change = world.operations.declare_change("chat", "incident", "gpu down", by=ADA, duration_s=10)
    policy = world.approved(Setting(value=16))
    world.run(9)
    assert world.policy(policy.id).state == "approved"
    with world.store.read() as tx:
        waits = [entry for entry in tx.audit() if entry.action == "guardrail.waits"]
    assert [(entry.subject, entry.details["guardrail"]) for entry in waits] == [
        (policy.id, "change")
    ]
    assert change.id in waits[0].details["words"]
    world.run(SETTLE_S + 3)
    assert world.policy(policy.id).state in ("applying", "on_trial")


def test_a_change_to_come_suspends_nothing_yet_and_can_be_called_off(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    later_us = world.clock_us() + 5_000_000
    change = world.operations.declare_change("chat", "scale", "2 → 4", by=ADA, from_us=later_us)
    policy_id = on_trial(world)
    world.operations.end_change(change.id, by=ADA)
    world.run(8)
    assert world.policy(policy_id).state == "on_trial"
    with pytest.raises(Conflict, match="over already"):
        world.operations.end_change(change.id, by=ADA)


def test_a_planned_end_can_be_brought_forward(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    change = world.operations.declare_change("chat", "deploy", "v2", by=ADA, duration_s=3600)
    ended = world.operations.end_change(change.id, by=ADA)
    assert ended.until_us == world.clock_us()


def test_what_is_no_change_is_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    now_us = world.clock_us()
    with pytest.raises(Rejected, match="ends after it began"):
        world.operations.declare_change("chat", "deploy", "v2", by=ADA, until_us=now_us - 1)
    with pytest.raises(Rejected, match="too far"):
        world.operations.declare_change("chat", "deploy", "v2", by=ADA, from_us=0)
    with pytest.raises(NotFound):
        world.operations.declare_change("nowhere", "deploy", "v2", by=ADA)
    with pytest.raises(NotFound):
        world.operations.end_change("chg_0", by=ADA)


def test_so_many_open_changes_are_a_mistake(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    for _ in range(world.declared.guardrails.max_changes):
        world.operations.declare_change("chat", "deploy", "again", by=ADA)
        world.now_s += 0.01
    with pytest.raises(Conflict, match="end some first"):
        world.operations.declare_change("chat", "deploy", "again", by=ADA)


def test_an_emergency_acts_during_a_deploy(tmp_path: Path) -> None:
    world = world_of(tmp_path, mode="auto", rules=emergency())
    world.operations.declare_change("chat", "deploy", "v2", by=ADA)
    world.run(20, until=lambda: world.cap() == 4)
    assert world.cap() == 4


def window(begins_in_s: int, lasts_s: int) -> FreezeWindowSettings:
    """A window around the world's own time, to the minute."""
    begins = datetime.fromtimestamp(START_S, UTC) + timedelta(seconds=begins_in_s)
    ends = begins + timedelta(seconds=lasts_s)
    return FreezeWindowSettings(
        days=("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
        begins=f"{begins:%H:%M}",
        ends=f"{ends:%H:%M}",
    )


def test_a_freeze_window_pauses_a_trial_and_lets_it_go_on(tmp_path: Path) -> None:
    world = world_of(tmp_path, freeze=(window(60, 60),))
    world.run(40, loop=False)
    policy_id = on_trial(world)
    world.run(25, until=lambda: world.policy(policy_id).state == "paused")
    assert world.policy(policy_id).state == "paused"
    assert "freeze window" in (world.policy(policy_id).cause or "")
    assert world.cap() == 8
    world.run(55, loop=False)
    world.run(8, until=lambda: world.policy(policy_id).state == "on_trial")
    assert world.policy(policy_id).state == "on_trial"
