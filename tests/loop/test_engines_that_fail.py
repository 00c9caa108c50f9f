"""Engines that die, refuse, run on other clocks, or are changed by somebody else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.wishes import last_stable
from policies.laws import Law, LawStep
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.errors import Rejected
from tests.loop.cases import anything, emergency, in_arm
from tests.loop.world import ADA, World


def test_a_hold_reaches_an_engine_that_was_away_when_it_was_said(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(5)
    world.engine.reachable = False
    report = world.operations.hold("chat", "look", by=ADA)
    assert [r.ok for r in report.replicas] == [False]
    world.run(5)
    world.engine.reachable = True
    world.run(2)
    assert world.engine.read().hold


@pytest.mark.parametrize(
    ("knob", "setting", "field"),
    [
        ("step_token_budget", Setting(value=128, shrink="preempt"), "shrink"),
        (
            "active_cap",
            Setting(
                law=Law(
                    variable="arrivals",
                    class_="vip",
                    window_s=2.0,
                    default=64,
                    steps=(LawStep(above=0, value=8),),
                )
            ),
            "law.class",
        ),
    ],
)
def test_what_the_engine_would_refuse_is_refused_when_proposed(
    tmp_path: Path, knob: str, setting: Setting, field: str
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(1)
    with pytest.raises(Rejected) as refused:
        world.operations.propose("chat", knob, setting, "a test", by=ADA)
    assert refused.value.field == field


def test_a_change_that_an_answering_engine_never_shows_ends_as_a_failed_read_back(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.engine.refuses = True
    world.run(40)
    world.engine.refuses = False
    world.run(2)
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("reverted", "HARMED")
    assert "failed read-back" in (ended.cause or "")
    world.approved(Setting(value=4))
    world.run(2)
    assert world.trial().state == "running", "the next policy gets its turn"


def test_a_foreign_change_just_before_a_block_s_end_is_not_written_over(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.approved(Setting(value=16))
    world.run(3)
    trial = world.trial()
    block = trial.units[-1].blocks[-1]
    assert block.began_us is not None
    left_s = (block.began_us / 1e6 + trial.plan.block_s) - world.clock_us() / 1e6
    world.run(left_s - 0.05)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    patch = Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    world.engine.patch(patch)
    world.run(3)
    assert world.cap() == 32
    with world.store.read() as tx:
        assert [one.setting.value for one in tx.overrides(state="active") if one.setting] == [32]


def test_a_foreign_change_of_another_knob_voids_the_trial_too(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(3)
    seen = world.engine.read()
    change = SettingChange(knob="step_token_budget", value=64)
    patch = Patch(
        change_id="x",
        epoch=seen.epoch,
        expected=seen.expected,
        settings=(change,),
        trial=seen.trial,
    )
    world.engine.patch(patch)
    world.run(2)
    assert world.policy(policy.id).cause == "foreign change"


def test_a_restart_forgets_a_foreign_change_and_the_baseline_is_back(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(5)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    patch = Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    world.engine.patch(patch)
    world.run(2)
    world.engine.die()
    world.run(2)
    assert world.cap() == 8
    with world.store.read() as tx:
        assert tx.overrides(state="active") == []


def test_a_release_leaves_a_foreign_change_alone(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(5)
    seen = world.engine.read()
    change = SettingChange(knob="active_cap", value=32)
    patch = Patch(change_id="x", epoch=seen.epoch, expected=seen.expected, settings=(change,))
    world.engine.patch(patch)
    world.run(2)
    world.operations.hold("chat", "look", by=ADA)
    world.run(2)
    world.operations.release("chat", "done", by=ADA)
    world.run(1)
    assert world.cap() == 32


def test_an_engine_that_dies_at_the_end_of_the_candidate_s_block_is_put_down_to_it(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(60, until=in_arm(world, "candidate"))
    world.run(8.5)
    world.engine.reachable = False
    world.run(4)
    world.engine.die()
    world.engine.reachable = True
    world.run(2)
    ended = world.policy(policy.id)
    assert (ended.state, ended.cause) == ("reverted", "HARMED: engine death")


def test_a_reboot_long_after_an_open_block_is_not_put_down_to_it(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(60, until=in_arm(world, "candidate"))
    world.run(2)
    world.engine.reachable = False
    world.run(240)
    world.engine.die()
    world.engine.reachable = True
    world.run(2)
    assert world.policy(policy.id).state == "on_trial"


def test_an_emergency_that_meets_a_trial_about_to_begin_lets_it_go_on_afterwards(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=emergency(cooldown="1h"))
    world.faster_with_cap = False
    world.run(10)
    world.engine.refuses = True
    policy = world.approved(Setting(value=16))
    world.run(1)
    assert world.policy(policy.id).state == "applying"
    world.faster_with_cap = True
    world.run(18, until=lambda: any(p.emergency for p in world.policies("applying")))
    world.engine.refuses = False
    world.run(5, until=lambda: world.cap() == 4)
    assert world.cap() == 4
    assert world.trial().state == "paused"
    assert all(not unit.judged for unit in world.trial().units), "a block that never began is void"
    world.run(40)
    assert world.policy(policy.id).state in ("on_trial", "kept", "reverted")


@pytest.mark.parametrize("skew_s", [-40.0, 300.0])
def test_blocks_last_as_long_by_an_engine_clock_that_is_off(tmp_path: Path, skew_s: float) -> None:
    world = World(tmp_path, quality=anything)
    world.engine_ahead_s = skew_s
    world.run(10)
    world.approved(Setting(value=16))
    world.run(65)
    begun = [b for u in world.trial().units for b in u.blocks if b.began_us is not None]
    assert 5 <= len(begun) <= 7


def test_an_emergency_s_time_does_not_run_while_held(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, mode="auto", rules=emergency())
    world.run(20, until=lambda: world.cap() == 4)
    world.run(1)
    world.operations.hold("chat", "look", by=ADA)
    world.run(world.declared.guardrails.emergency_s + 5)
    assert world.cap() == 4
    world.traffic = True
    world.operations.release("chat", "done", by=ADA)
    world.run(0.3)
    states = {p.state: p.cause for p in world.policies() if p.emergency}
    assert "expired" not in states.values()


def test_what_is_stable_is_what_an_engine_has_once_everything_expired(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    wish = last_stable(world.engine.read())
    assert wish.settings["active_cap"].setting.value == 8
    assert msgspec.to_builtins(wish.trial) is None


def test_a_foreign_change_between_the_look_and_the_patch_is_not_written_over(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.approved(Setting(value=16))
    look = world.loop._looker.look

    def changed_meanwhile(*args: object, **named: object) -> object:
        world.loop._looker.look = look  # type: ignore[method-assign]
        seen = look(*args, **named)  # type: ignore[arg-type]
        now = world.engine.read()
        change = SettingChange(knob="active_cap", value=32)
        patch = Patch(change_id="x", epoch=now.epoch, expected=now.expected, settings=(change,))
        world.engine.patch(patch)
        return seen

    world.loop._looker.look = changed_meanwhile  # type: ignore[method-assign, assignment]
    world.run(3)
    assert world.cap() == 32
    with world.store.read() as tx:
        assert [one.setting.value for one in tx.overrides(state="active") if one.setting] == [32]


def test_an_engine_that_dies_in_a_trial_ends_it_before_the_next_one_begins(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    first = world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    second = world.approved(Setting(value=4))
    world.run(1)
    world.engine.die()
    world.run(2)
    assert world.policy(first.id).state == "reverted"
    assert world.policy(second.id).state == "on_trial"
    with world.store.read() as tx:
        running = [trial.plan.policy_id for trial in tx.trials(target="chat", running=True)]
    assert running == [second.id]
