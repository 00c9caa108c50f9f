"""Whole settings back, to last stable and to a time; engines that are left as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.laws import Law, LawStep
from policies.policy import Policy
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.errors import Conflict
from tests.loop.cases import anything, emergency
from tests.loop.test_overrides import now, on_trial, set_over
from tests.loop.world import ADA, World

LAW = Law(variable="arrivals", window_s=2.0, default=16, steps=(LawStep(above=0, value=4),))


def kept(world: World, value: int) -> Policy:
    """A policy that was kept, as the judge leaves it."""
    policy = world.approved(Setting(value=value))
    with world.store.write() as tx:
        policy = tx.move(policy, "applying", actor="loop", at_us=world.clock_us())
        applied_us = world.clock_us()
        policy = tx.move(policy, "on_trial", actor="loop", at_us=applied_us, applied_us=applied_us)
        return tx.move(policy, "kept", actor="loop", at_us=world.clock_us(), verdict="IMPROVED")


def test_to_last_stable_the_trial_goes_and_what_was_kept_stays(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    stable = kept(world, 16)
    tried = on_trial(world, 32)
    force = set_over(world, "force", 64, knob="step_token_budget")
    world.run(1)
    done = world.operations.rollback("chat", "latency", by=ADA)
    assert [one.ok for one in done.replicas] == [True]
    assert (world.cap(), list(done.reverted), list(done.standing)) == (16, [tried.id], [force.id])
    assert done.after == {"active_cap": "16", "step_token_budget": "64"}
    world.run(2)
    ended = world.policy(tried.id)
    assert ended.state == "reverted"
    assert (ended.cause or "").startswith("rollback to last stable by ada: latency")
    assert world.policy(stable.id).state == "kept"
    assert world.trial().state == "done"
    assert "control.rollback" in world.actions()


def test_an_emergency_goes_with_a_rollback_to_last_stable(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=emergency())
    world.run(60, until=lambda: world.cap() == 4)
    assert world.cap() == 4
    world.operations.hold("chat", "look first", by=ADA)
    done = world.operations.rollback("chat", "the rule is wrong", by=ADA)
    assert [one.ok for one in done.replicas] == [True]
    assert (world.cap(), world.engine.read().hold) == (8, True), "a hold does not stop it"


def test_to_a_time_newer_policies_are_reverted_and_the_rest_is_pinned(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    first = kept(world, 16)
    world.run(2)
    then_us = world.clock_us()
    world.run(1)
    second = kept(world, 32)
    world.run(2)
    assert world.cap() == 32
    budget = set_over(world, value=64, knob="step_token_budget", expires_in_s=3600.0)
    world.run(2)
    done = world.operations.rollback("chat", "since noon", by=ADA, at_us=then_us)
    assert (world.cap(), done.pinned) == (16, {})
    assert (list(done.reverted), list(done.ended)) == ([second.id], [budget.id])
    world.run(2)
    assert world.policy(second.id).state == "reverted"
    assert world.policy(first.id).state == "kept"
    assert world.engine.book.values() == {"active_cap": 16, "step_token_budget": 256}


def test_what_the_layers_no_longer_lead_to_is_pinned_with_an_end(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    first = kept(world, 16)
    world.run(2)
    then_us = world.clock_us()
    world.run(1)
    world.operations.revert(first.id, "not this week", by=ADA)
    world.run(2)
    assert world.cap() == 8
    shown = world.operations.rollback("chat", "it was good", by=ADA, at_us=then_us, dry_run=True)
    assert (shown.pinned, world.cap()) == ({"active_cap": "16"}, 8)
    done = world.operations.rollback("chat", "it was good", by=ADA, at_us=then_us)
    assert (done.pinned, done.after, world.cap()) == (shown.pinned, shown.after, 16)
    with world.store.read() as tx:
        (pin,) = tx.overrides(target="chat", state="active")
    assert pin.expires_us - pin.created_us == world.declared.control.rollback_pin_s * 1_000_000
    seen = world.engine.read().setting("active_cap")
    assert seen is not None and seen.policy_id == pin.id
    assert seen.fallback is not None and seen.fallback.value == 8


def test_a_law_that_was_in_force_is_pinned_as_a_law(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    pin = set_over(world, setting={"law": _plain_law()}, expires_in_s=3600.0)
    world.run(2)
    then_us = world.clock_us()
    world.operations.end_override(pin.id, "enough", by=ADA)
    world.run(2)
    done = world.operations.rollback("chat", "back", by=ADA, at_us=then_us)
    seen = world.engine.read().setting("active_cap")
    assert seen is not None and seen.law == LAW
    assert list(done.pinned) == ["active_cap"]


def _plain_law() -> dict[str, object]:
    return {
        "variable": "arrivals",
        "window_s": 2.0,
        "default": 16,
        "steps": [{"above": 0, "value": 4}],
    }


def test_what_nobody_recorded_is_not_guessed(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    before_us = world.clock_us() - 1_000_000_000
    world.run(2)
    with pytest.raises(Conflict, match="the record begins at"):
        world.operations.rollback("chat", "back", by=ADA, at_us=before_us)
    assert "control.rollback" not in world.actions()


def test_a_killed_target_is_released_before_it_is_rolled_back(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    world.operations.kill("chat", "stop", by=ADA)
    with pytest.raises(Conflict, match="release"):
        world.operations.rollback("chat", "back", by=ADA)


def test_a_rollback_lists_an_engine_that_does_not_answer(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    set_over(world)
    world.run(1)
    world.engine.reachable = False
    world.now_s += 5
    done = world.operations.rollback("chat", "back", by=ADA)
    assert [one.ok for one in done.replicas] == [False]
    world.engine.reachable = True
    world.run(2)
    assert world.cap() == 8, "it is brought when it answers"


@pytest.mark.parametrize(("expiries", "cap"), [("keep", 4), ("let", 8)])
def test_a_detached_engine_is_left_with_what_expires_as_told(
    tmp_path: Path, expiries: str, cap: int
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    pin = set_over(world, expires_in_s=10.0)
    world.run(1)
    left = world.operations.detach(
        "chat",
        "ours no more",
        expiries=expiries,  # type: ignore[arg-type]
        by=ADA,
    )
    assert [one.ok for one in left.replicas] == [True]
    said = next(line for line in left.words if line.startswith("active_cap"))
    assert ("made to stay" in said) == (expiries == "keep")
    world.run(20)
    assert (world.cap(), now(world, pin).state) == (cap, "active")
    world.operations.attach("chat", "ours again", by=ADA)
    world.run(1)
    assert (world.cap(), now(world, pin).state) == (8, "ended")
    assert [a for a in world.actions() if a in ("control.detached", "control.released")]


def test_a_law_goes_on_running_in_a_detached_engine(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    set_over(world, setting={"law": _plain_law()}, expires_in_s=3600.0)
    world.run(1)
    left = world.operations.detach("chat", "ours no more", expiries="keep", by=ADA)
    assert any("the law goes on running" in line for line in left.words)
    seen = world.engine.read().setting("active_cap")
    assert seen is not None and (seen.law, seen.expires_in_s) == (LAW, None)


def test_a_trial_waits_while_its_engine_is_detached_and_its_stamp_is_off(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    policy = on_trial(world)
    world.operations.detach("chat", "ours no more", expiries="let", by=ADA)
    world.run(1)
    assert (world.policy(policy.id).state, world.engine.read().trial) == ("paused", None)
    world.operations.attach("chat", "ours again", by=ADA)
    world.run(2)
    assert world.policy(policy.id).state == "on_trial"


def test_what_others_change_on_a_detached_engine_is_kept_as_a_pin_when_it_is_attached(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    world.operations.detach("chat", "ours no more", expiries="keep", by=ADA)
    world.run(1)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    world.engine.patch(
        Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )
    world.run(5)
    with world.store.read() as tx:
        assert tx.overrides(target="chat", state="active") == []
    world.operations.attach("chat", "ours again", by=ADA)
    world.run(5)
    with world.store.read() as tx:
        (found,) = tx.overrides(target="chat", state="active")
    assert (found.adopted, world.cap()) == ("r0", 32)


def test_an_engine_that_refuses_is_told_apart_from_one_that_is_away(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(2)
    world.engine.refuses = True
    set_over(world)
    world.run(1)
    replica = world.fleet.first("chat")
    assert (world.cap(), _refused(world)) == (8, "this engine refuses everything")
    assert replica.problem is None
    world.engine.refuses = False
    world.run(1)
    assert (world.cap(), _refused(world)) == (4, None)


def _refused(world: World) -> str | None:
    return world.fleet.first("chat").refused
