"""What people set over the loop, and what the loop makes of it: trials wait, units are void."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.baselines import set_baseline
from controller.override_acts import OverrideRequest
from policies.overrides import Override
from policies.policy import Policy
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.errors import Conflict, NotFound, Rejected
from tests.loop.cases import anything, emergency
from tests.loop.world import ADA, World


def set_over(world: World, kind: str = "pin", value: int | None = 4, **more: object) -> Override:
    """An override of the cap for a minute."""
    fields: dict[str, object] = {
        "target": "chat",
        "kind": kind,
        "knob": "active_cap",
        "setting": None if value is None else {"value": value},
        "reason": "a test",
        "expires_in_s": 60.0,
    }
    return world.operations.override(msgspec.convert(fields | more, OverrideRequest), by=ADA)


def on_trial(world: World, value: int = 16) -> Policy:
    """A change whose trial has begun."""
    world.run(10)
    policy = world.approved(Setting(value=value))
    world.run(60, until=lambda: world.cap() == value)
    assert world.policy(policy.id).state == "on_trial"
    return policy


def now(world: World, override: Override) -> Override:
    with world.store.read() as tx:
        return tx.override(override.id)


def test_a_pin_pauses_the_trial_of_its_knob_which_goes_on_afterwards(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    pin = set_over(world)
    world.run(1)
    assert (world.policy(policy.id).state, world.trial().paused_by) == ("paused", "override")
    assert pin.id in (world.policy(policy.id).cause or "")
    assert (world.cap(), world.engine.read().trial) == (4, None)
    units = len(world.trial().units)
    world.run(30)
    assert len(world.trial().units) == units, "nothing is measured meanwhile"
    world.operations.end_override(pin.id, "enough", by=ADA)
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"
    assert world.trial().units[-1].void is None


def test_a_freeze_leaves_the_engine_and_pauses_what_is_on_trial_there(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    set_over(world, "freeze", None, knob=None)
    world.run(2)
    assert world.policy(policy.id).state == "paused"
    assert world.cap() == 8, "the arm is off; what was in force stays"
    waiting = world.approved(Setting(value=4))
    world.run(60, until=lambda: world.policy(policy.id).state == "on_trial")
    assert world.policy(waiting.id).state == "approved", "nothing new began there"


def test_a_pin_elsewhere_on_the_target_voids_the_unit_it_fell_into(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    unit = world.trial().units[-1].index
    pin = set_over(world, knob="step_token_budget", value=64)
    world.run(1)
    cut = world.trial().units[unit]
    assert "pin step_token_budget = 64 was set" in (cut.void or "")
    assert world.policy(policy.id).state == "on_trial"
    unit = world.trial().units[-1].index
    world.run(70, until=lambda: now(world, pin).state == "ended")
    assert now(world, pin).cause == "expired"
    assert "expired" in (world.trial().units[-2].void or "")


@pytest.mark.parametrize("kind", ["pin", "force"])
def test_a_rule_only_observes_what_a_person_has_set(tmp_path: Path, kind: str) -> None:
    world = World(
        tmp_path, quality=anything, mode="auto", rules=emergency(emergency=False, id="slow")
    )
    set_over(world, kind, 16, expires_in_s=3600.0)
    world.run(30)
    assert world.cap() == 16
    assert {p.state for p in world.policies()} <= {"observed"}


def test_under_a_hold_a_force_is_sent_and_a_pin_waits_for_the_release(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    world.operations.hold("chat", "look", by=ADA)
    set_over(world, "pin", 4)
    world.run(2)
    assert world.cap() == 8
    set_over(world, "force", 2)
    world.run(2)
    assert (world.cap(), world.engine.read().hold) == (2, True)
    world.operations.release("chat", "done", by=ADA)
    world.run(1)
    assert (world.cap(), world.engine.read().hold) == (2, False)


def test_an_override_that_ends_during_a_hold_ends_with_its_release(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    pin = set_over(world, expires_in_s=10.0)
    world.run(2)
    world.operations.hold("chat", "look", by=ADA)
    world.run(20)
    assert (world.cap(), now(world, pin).state) == (4, "active")
    world.operations.release("chat", "done", by=ADA)
    world.run(1)
    assert (world.cap(), now(world, pin).cause) == (8, "expired")


def test_a_fallback_is_sent_again_when_a_lower_layer_changes(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    set_over(world, value=4, expires_in_s=3600.0)
    world.run(1)

    def fallback() -> tuple[int | None, str | None]:
        seen = world.engine.read().setting("active_cap")
        assert seen is not None and seen.fallback is not None
        return seen.fallback.value, seen.fallback.policy_id

    assert fallback() == (8, None)
    _declare(world, {"active_cap": Setting(value=16)})
    world.run(1)
    assert (world.cap(), fallback()) == (4, (16, None))


def test_a_stranger_s_change_is_listed_as_a_pin_and_can_be_released(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    world.engine.patch(
        Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )
    world.run(2)
    with world.store.read() as tx:
        (found,) = tx.overrides(target="chat", state="active")
    assert (found.kind, found.adopted, found.by) == ("pin", "r0", "loop")
    assert "override.set" in world.actions()
    assert world.cap() == 32
    world.operations.end_override(found.id, "it was us", by=ADA)
    world.run(1)
    assert world.cap() == 8


def test_a_person_s_pin_takes_the_place_of_a_stranger_s_change(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    world.engine.patch(
        Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )
    world.run(2)
    pin = set_over(world, value=4)
    world.run(1)
    assert world.cap() == 4
    with world.store.read() as tx:
        assert [one.id for one in tx.overrides(state="active")] == [pin.id]
        assert tx.overrides(state="ended")[0].cause == f"replaced by {pin.id}"


def test_there_is_a_bound_on_overrides_of_a_target(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    bound = world.declared.control.max_overrides
    with world.store.write() as tx:
        for n in range(bound):
            tx.add_override(
                Override(
                    id=f"frz_{n:032x}",
                    target="chat",
                    kind="freeze",
                    knob=f"k{n}",
                    reason="a test",
                    by="ada",
                    created_us=0,
                    expires_us=world.clock_us() + 10**9,
                )
            )
    with pytest.raises(Conflict, match="release some"):
        set_over(world)


def test_a_baseline_changed_under_a_trial_ends_it_undecided(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    _declare(world, {"active_cap": Setting(value=4)})
    world.run(2)
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("reverted", "INCONCLUSIVE")
    assert "baseline" in (ended.cause or "")
    assert world.cap() == 4


def test_a_baseline_changed_elsewhere_voids_the_unit(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    unit = world.trial().units[-1].index
    _declare(world, {"active_cap": Setting(value=8), "step_token_budget": Setting(value=64)})
    world.run(1)
    assert "day@3 was declared" in (world.trial().units[unit].void or "")
    assert world.policy(policy.id).state == "on_trial"


def _declare(world: World, settings: dict[str, Setting]) -> None:
    """A person declares it, on a target whose file owns no baseline any more."""
    with world.store.write() as tx:
        now = tx.baseline("chat")
        assert now is not None
        tx.declare_baseline(msgspec.structs.replace(now, version=now.version + 1, managed_by="api"))
    made = world.operations.set_baseline("chat", settings, called="day", reason="a test", by=ADA)
    assert (made.name, made.by) == ("day", ADA.id)


def test_a_baseline_is_declared_by_whoever_saw_the_last_one(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    with pytest.raises(Conflict, match="configuration file"):
        world.operations.set_baseline("chat", {}, called="day", reason="a test", by=ADA)
    with world.store.write() as tx, pytest.raises(Conflict, match="version 0"):
        set_baseline(tx, "other", {}, called="day", reason="a test", by="ada", now_us=1, version=3)
    with pytest.raises(NotFound):
        world.operations.set_baseline("nobody", {}, called="day", reason="a test", by=ADA)


def test_a_baseline_is_held_to_what_the_engine_takes(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    for settings, field in (
        ({"active_cap": Setting(value=99)}, "settings.active_cap.value"),
        ({"active_cap@live": Setting(value=2)}, "settings.active_cap@live"),
        ({"no_knob": Setting(value=2)}, "knob"),
    ):
        with pytest.raises(Rejected) as refused:
            world.operations.set_baseline("chat", settings, called="d", reason="r", by=ADA)
        assert refused.value.field == field
