"""Acts that meet: what one of them leaves behind, another must not take for its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.config.guardrails import GuardrailSettings
from controller.config.targets import Knobs
from controller.latch import Latch, Latched
from controller.override_acts import OverrideRequest
from policies.policy import Policy
from policies.runtime_config import Patch, RuntimeConfig, SettingChange
from policies.settings import Setting
from signals.errors import Conflict, NotFound, Unavailable
from tests.loop.cases import anything, emergency, in_arm, kept
from tests.loop.world import ADA, BOB, World

CAP = "active_cap"
BUDGET = "step_token_budget"


def on_trial(world: World, setting: Setting) -> Policy:
    """A policy whose trial runs."""
    policy = world.approved(setting)
    world.run(30, until=lambda: world.policy(policy.id).state == "on_trial")
    return policy


def strange(world: World, value: int, knob: str = CAP) -> None:
    """Somebody else sets a knob."""
    seen = world.engine.read()
    change = SettingChange(knob=knob, value=value)
    world.engine.patch(
        Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )


def latch_behind_the_store(world: World, state: str) -> None:
    """The latch as it is right after another person's act, of which the store has not heard."""
    latched = Latched(
        state=state,  # type: ignore[arg-type]
        actor="key_other",
        reason="stop",
        since_us=world.clock_us(),
    )
    Latch(world.folder / "latch.json").set("chat", latched)


def emergency_beside_a_trial(world: World) -> Policy:
    """A trial of the budget that stands still, and an emergency of the cap that acts."""
    world.faster_with_cap = False
    world.run(10)
    proposed = world.operations.propose("chat", BUDGET, Setting(value=128), "a test", by=ADA)
    policy = world.operations.approve(proposed.id, proposed.shown_digest, by=BOB)
    world.run(30, until=lambda: world.policy(policy.id).state == "on_trial")
    return policy


def test_a_trial_that_an_override_paused_waits_for_an_emergency_too(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=emergency())
    policy = emergency_beside_a_trial(world)
    freeze = world.operations.override(
        OverrideRequest(target="chat", kind="freeze", knob=BUDGET, reason="x", expires_in_s=600),
        by=ADA,
    )
    world.run(1)
    assert world.trial().paused_by == "override"
    world.faster_with_cap = True
    world.run(30, until=lambda: any(p.emergency for p in world.policies("in_force")))
    world.operations.end_override(freeze.id, "done", by=ADA)
    world.run(0.5)
    assert [p.state for p in world.policies() if p.emergency] == ["in_force"]
    assert world.policy(policy.id).state == "paused"
    world.run(60, until=lambda: world.policy(policy.id).state == "on_trial")
    assert [p.state for p in world.policies() if p.emergency] == ["reverting"]


def test_a_person_can_t_resume_a_trial_beside_an_emergency(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=emergency())
    policy = emergency_beside_a_trial(world)
    world.operations.pause(policy.id, "look", by=ADA)
    world.faster_with_cap = True
    world.run(30, until=lambda: any(p.emergency for p in world.policies("in_force")))
    with pytest.raises(Conflict) as refused:
        world.operations.resume(policy.id, by=ADA)
    assert "emergency" in refused.value.detail
    assert world.policy(policy.id).state == "paused"


def test_an_emergency_that_a_person_approves_keeps_its_own_bound(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="approve", rules=emergency())
    world.run(20, until=lambda: any(p.emergency for p in world.policies("pending")))
    asked = next(p for p in world.policies("pending") if p.emergency)
    approved = world.operations.approve(asked.id, asked.shown_digest, by=BOB)
    assert approved.expires_us is not None
    left_s = (approved.expires_us - world.clock_us()) / 1e6
    assert left_s <= world.declared.guardrails.emergency_s
    world.run(2)
    assert world.cap() == 4
    world.run(world.declared.guardrails.emergency_s + 1, loop=False)
    assert world.cap() == 8, "it ends in the engine without anybody's help"


def test_a_trial_is_not_resumed_on_a_detached_target(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = on_trial(world, Setting(value=16))
    world.operations.detach("chat", "ours now", expiries="let", by=ADA)
    world.run(1)
    with pytest.raises(Conflict) as refused:
        world.operations.resume(policy.id, by=ADA)
    assert "detached" in refused.value.detail
    world.run(60)
    world.operations.attach("chat", "go on", by=ADA)
    world.run(5)
    assert world.policy(policy.id).state == "on_trial"


def test_a_trial_whose_ground_moved_under_a_hold_is_not_kept_for_what_it_showed_before(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = on_trial(world, Setting(value=16))
    world.run(900, until=lambda: _about_to_win(world))
    world.operations.hold("chat", "look", by=ADA)
    world.run(5)
    with world.store.write() as tx:
        before = tx.baseline("chat")
        assert before is not None
        settings = {CAP: Setting(value=32)}
        tx.declare_baseline(
            msgspec.structs.replace(before, version=before.version + 1, settings=settings)
        )
    world.run(10)
    world.operations.release("chat", "done", by=ADA)
    world.run(3)
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("reverted", "INCONCLUSIVE"), ended.cause


def _about_to_win(world: World) -> bool:
    """The unit that decides is over, and its telemetry is not closed yet."""
    trial = world.trial()
    assert trial.state == "running", "it was decided without anybody noticing"
    judged = sum(unit.judged for unit in trial.units)
    waits = any(
        not unit.judged
        and unit.void is None
        and len(unit.blocks) == 2
        and all(block.ended_us is not None for block in unit.blocks)
        for unit in trial.units
    )
    return waits and judged == 6


def test_a_rollback_does_not_overtake_a_kill_that_the_store_has_not_heard_of(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    latch_behind_the_store(world, "killed")
    with pytest.raises(Conflict) as refused:
        world.operations.rollback("chat", "back", by=ADA)
    assert "killed" in refused.value.detail
    assert "control.rollback" not in world.actions()


def test_a_stranger_s_change_that_a_kill_took_away_is_not_left_alone_afterwards(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = kept(world, world.operations.propose("chat", CAP, Setting(value=16), "x", by=ADA))
    assert policy.state == "kept" and world.cap() == 16
    strange(world, 32)
    world.operations.kill("chat", "stop", by=ADA)
    world.run(1)
    assert world.cap() == 16
    assert "engine.foreign_change" in world.actions()
    with world.store.read() as tx:
        assert tx.overrides(target="chat", state="active") == []


def test_a_stranger_s_change_under_a_kill_is_told_and_taken_away_for_good(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.operations.kill("chat", "stop", by=ADA)
    world.run(1)
    strange(world, 32)
    world.run(1)
    assert world.cap() == 8
    assert "engine.foreign_change" in world.actions()
    with world.store.read() as tx:
        assert tx.overrides(target="chat", state="active") == []


def test_an_engine_that_was_out_of_reach_as_a_block_was_opened_has_failed_nothing(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = on_trial(world, Setting(value=16))
    world.run(60, until=in_arm(world, "baseline"))
    trial = world.trial()
    block = trial.units[-1].blocks[-1]
    assert block.began_us is not None
    left_s = (block.began_us / 1e6 + trial.plan.block_s) - world.clock_us() / 1e6
    world.run(left_s - 0.05)
    patch, world.engine.patch = world.engine.patch, _away  # type: ignore[method-assign]
    world.run(0.3)
    world.engine.patch = patch  # type: ignore[method-assign]
    world.engine.reachable = False
    world.run(40)
    world.engine.reachable = True
    world.run(3)
    now = world.policy(policy.id)
    assert (now.state, now.verdict) == ("on_trial", None), now.cause


def _away(patch: Patch) -> RuntimeConfig:
    raise Unavailable("the engine does not answer")


def test_an_act_on_a_target_that_is_unknown_latches_none_of_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    with pytest.raises(NotFound):
        world.operations.kill_all(["chat", "chta"], "stop", by=ADA)
    assert Latch(tmp_path / "latch.json").read() == {}


def test_an_engine_that_restarts_under_a_hold_gets_what_lasts_and_the_hold(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    kept(world, world.operations.propose("chat", CAP, Setting(value=16), "x", by=ADA))
    world.operations.hold("chat", "look", by=ADA)
    world.run(1)
    world.engine.die()
    world.run(2)
    assert world.engine.read().hold
    assert world.cap() == 16


def test_what_the_loop_approved_alone_does_not_begin_once_its_mode_is_lowered(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything, rules=emergency(emergency=False))
    world.run(1)
    world.operations.set_mode("chat", CAP, "auto", by=ADA)
    world.operations.declare_change("chat", "deploy", "a new model", by=ADA)
    world.run(20, until=lambda: bool(world.policies("approved")))
    (waits,) = world.policies("approved")
    assert waits.decided_by == "loop"
    world.operations.set_mode("chat", CAP, "observe", by=ADA)
    world.run(1)
    ended = world.policy(waits.id)
    assert (ended.state, ended.cause) == ("superseded", "the mode of active_cap is observe now")


def test_a_freeze_of_an_intent_holds_up_what_would_change_it_with_the_whole_target(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = on_trial(world, Setting(value=16))
    freeze = world.operations.override(
        OverrideRequest(target="chat", kind="freeze", scope="live", reason="x", expires_in_s=600),
        by=ADA,
    )
    world.run(1)
    assert world.policy(policy.id).state == "paused"
    world.operations.end_override(freeze.id, "done", by=ADA)
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"


def test_an_engine_that_another_controller_has_is_listed_by_a_kill(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    seen = world.engine.read()
    world.engine.patch(Patch(change_id="x", epoch=seen.epoch + 1, expected=seen.expected))
    change = SettingChange(knob=CAP, value=32)
    seen = world.engine.read()
    world.engine.patch(
        Patch(change_id="y", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    )
    report = world.operations.kill("chat", "stop", by=ADA)
    assert [one.ok for one in report.replicas] == [False]
    assert "fenced" in report.replicas[0].detail
    assert report.recorded
    assert "control.reached" in world.actions()


def test_at_the_bound_an_override_may_still_take_the_place_of_one(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    bound = world.declared.control.max_overrides
    wanted = OverrideRequest(
        target="chat", kind="force", knob=CAP, setting=Setting(value=4), reason="x", expires_in_s=60
    )
    first = world.operations.override(wanted, by=ADA)
    with world.store.write() as tx:
        for n in range(bound - 1):
            frozen = msgspec.structs.replace(
                first, id=f"frz_{n:032x}", kind="freeze", knob=f"k{n}", setting=None
            )
            tx.add_override(frozen)
    again = msgspec.structs.replace(wanted, setting=Setting(value=2))
    assert world.operations.override(again, by=ADA).setting == Setting(value=2)


def test_bounds_that_were_tightened_hold_up_what_was_approved_before(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, guardrails=GuardrailSettings(settle_s=60))
    world.run(10)
    change = world.operations.declare_change("chat", "deploy", "tighter bounds", by=ADA)
    policy = world.approved(Setting(value=32))
    world.run(1)
    knobs = world.declared.target.knobs.model_dump()
    knobs[CAP] = {"mode": None, "range": (2, 16)}
    target = world.declared.target.model_copy(update={"knobs": Knobs.model_validate(knobs)})
    world.declared = msgspec.structs.replace(world.declared, target=target)
    world.start_controller()
    world.operations.end_change(change.id, by=ADA)
    world.run(world.declared.guardrails.settle_s + 5)
    assert world.policy(policy.id).state == "approved"
    with world.store.read() as tx:
        waits = [entry for entry in tx.audit() if entry.action == "guardrail.waits"]
    assert waits[-1].details["guardrail"] == "bounds"


def test_a_person_may_make_another_s_pause_his_own_and_only_he_ends_it(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, guardrails=GuardrailSettings(settle_s=60))
    world.run(10)
    policy = on_trial(world, Setting(value=16))
    change = world.operations.declare_change("chat", "deploy", "a new model", by=ADA)
    world.run(1)
    assert world.trial().paused_by == "change"
    world.operations.pause(policy.id, "not before I have looked", by=ADA)
    world.operations.end_change(change.id, by=ADA)
    world.run(world.declared.guardrails.settle_s + 5)
    assert (world.policy(policy.id).state, world.trial().paused_by) == ("paused", "person")
    with pytest.raises(Conflict):
        world.operations.pause(policy.id, "again", by=ADA)
    world.operations.resume(policy.id, by=ADA)
    world.run(2)
    assert world.policy(policy.id).state == "on_trial"
