"""Taking a layer away under newer ones, and what engines are told when a lower layer moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.override_acts import OverrideRequest
from policies.policy import Policy
from policies.settings import Setting
from signals.errors import Conflict
from tests.loop.cases import FAST, anything, kept
from tests.loop.world import ADA, World


def keep(world: World, value: int) -> Policy:
    proposal = world.operations.propose("chat", "active_cap", Setting(value=value), "try", by=ADA)
    return kept(world, proposal)


def test_a_revert_under_a_newer_kept_policy_names_it_and_changes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    below, above = keep(world, 16), keep(world, 32)
    with pytest.raises(Conflict) as refused:
        world.operations.revert(below.id, "no", by=ADA)
    assert refused.value.allowed == [above.id]
    assert above.id in refused.value.detail
    world.run(1)
    assert [world.policy(one.id).state for one in (below, above)] == ["kept", "kept"]
    world.operations.revert(above.id, "no", by=ADA)
    world.operations.revert(below.id, "no", by=ADA)
    world.run(1)
    assert world.cap() == 8


def test_with_newer_takes_all_of_them_back(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    below, above = keep(world, 16), keep(world, 32)
    world.operations.revert(below.id, "all", by=ADA, with_newer=True)
    world.run(1)
    assert [world.policy(one.id).state for one in (below, above)] == ["reverted", "reverted"]
    assert f"with {below.id}" in (world.policy(above.id).cause or "")
    assert world.cap() == 8


def test_a_revert_under_a_pin_names_the_pin(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    below = keep(world, 16)
    pin = world.operations.override(
        OverrideRequest(
            target="chat",
            kind="pin",
            knob="active_cap",
            setting=Setting(value=4),
            reason="mine",
            expires_in_s=600,
        ),
        by=ADA,
    )
    with pytest.raises(Conflict) as refused:
        world.operations.revert(below.id, "no", by=ADA)
    assert refused.value.allowed == [pin.id]
    world.operations.revert(below.id, "I know", by=ADA, with_newer=True)
    world.run(1)
    assert world.policy(below.id).state == "reverted"
    assert world.cap() == 4


def test_a_fallback_is_sent_again_when_the_layer_below_it_changes(tmp_path: Path) -> None:
    rule = {"id": "fast", "when": FAST, "for": "3s", "emergency": True}
    world = World(
        tmp_path, quality=anything, mode="auto", rules=[{**rule, "propose": {"active_cap": 4}}]
    )
    below = keep(world, 16)
    world.run(20, until=lambda: world.cap() == 4)
    assert world.cap() == 4
    setting = world.engine.read().setting("active_cap")
    assert setting is not None and setting.fallback is not None
    assert (setting.fallback.value, setting.fallback.policy_id) == (16, below.id)
    world.operations.revert(below.id, "no", by=ADA)
    world.run(0.5)
    setting = world.engine.read().setting("active_cap")
    assert setting is not None and setting.fallback is not None
    assert (setting.value, setting.fallback.value) == (4, 8)
