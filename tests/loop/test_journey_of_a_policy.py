"""From proposal to verdict, with the real loop, store, judge and settings book."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.trials import arms
from policies.laws import Law, LawStep
from policies.runtime_config import Patch, SettingChange
from policies.settings import Setting
from signals.errors import Conflict, Rejected
from tests.loop.world import ADA, BOB, World

LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=64,
    steps=(LawStep(above=0, value=8),),
)


def quality(cap: int, intent: str) -> bool:
    """Live requests need room but not a crowd; batch is patient."""
    return intent == "batch" or 4 <= cap <= 8


def anything(cap: int, intent: str) -> bool:
    """Nothing matters."""
    return True


def test_the_baseline_is_brought_to_a_new_engine(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    assert world.cap() == 64
    world.run(1)
    assert world.cap() == 8


def test_a_law_that_helps_is_tried_in_blocks_and_kept(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(80)
    policy = world.approved(Setting(law=LAW))
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"
    assert world.trial().plan.cycle_s == pytest.approx(16.0, abs=0.5)
    world.run(900, until=lambda: world.trial().state == "done")
    kept = world.policy(policy.id)
    assert (kept.state, kept.verdict) == ("kept", "IMPROVED"), kept.cause
    assert kept.review_us is not None
    world.run(1)
    setting = world.engine.read().setting("active_cap")
    assert setting is not None and setting.law == LAW and setting.expires_in_s is None
    assert world.engine.read().trial is None


def test_a_trial_has_room_for_the_units_that_exclude_the_rare_losses_it_is_asked_to(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=quality, rarest_loss=0.3)
    world.run(10)
    world.approved(Setting(value=16))
    world.run(1)
    plan = world.trial().plan
    assert (plan.rarest_loss, plan.max_units) == (0.3, 13), "12 units would not exclude them"


def test_a_bad_cap_is_judged_harmed_and_read_back_without_it(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    policy = world.approved(Setting(value=2))
    world.run(900, until=lambda: world.policy(policy.id).state in ("reverted", "kept"))
    reverted = world.policy(policy.id)
    assert (reverted.state, reverted.verdict) == ("reverted", "HARMED"), reverted.cause
    assert world.cap() == 8
    assert reverted.undo_us is not None
    assert reverted.updated_us - reverted.undo_us < 1_000_000


def test_no_effect_is_neither_improved_nor_harmed_and_ends_at_the_baseline(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, max_units=6)
    world.faster_with_cap = False
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(900, until=lambda: world.policy(policy.id).state in ("reverted", "kept"))
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("reverted", "INCONCLUSIVE"), ended.cause
    assert world.cap() == 8


def test_without_traffic_the_verdict_is_no_data(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.traffic = False
    world.run(5)
    policy = world.approved(Setting(value=16))
    world.run(900, until=lambda: world.policy(policy.id).state == "expired")
    ended = world.policy(policy.id)
    assert (ended.state, ended.verdict) == ("expired", "NO_DATA")


def test_a_law_whose_cycle_is_unknown_is_not_tried(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(5)
    policy = world.approved(Setting(law=LAW))
    world.run(1)
    failed = world.policy(policy.id)
    assert (failed.state, failed.verdict) == ("failed", "INCONCLUSIVE")
    assert "cycle" in (failed.cause or "")


def test_blocks_follow_the_coins_that_the_frozen_seed_gives(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    world.approved(Setting(value=16))
    world.run(120)
    trial = world.trial()
    assert len(trial.units) >= 4
    for unit in trial.units[:-1]:
        assert tuple(b.arm for b in unit.blocks) == arms(trial.plan.seed, unit.index)
    frozen = [a for a in world.actions() if a == "trial.frozen"]
    assert len(frozen) == 1


def test_errors_of_the_candidate_trip_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))

    def candidate_runs() -> bool:
        stamp = world.engine.stamp.trial
        return stamp is not None and stamp.arm == "candidate"

    world.run(60, until=candidate_runs)
    stamp = world.engine.stamp.trial
    assert stamp is not None
    world.rows.errors[(stamp.id, stamp.block)] = 19
    world.run(1)
    assert world.policy(policy.id).state == "on_trial"
    world.rows.errors[(stamp.id, stamp.block)] = 20
    world.run(0.5)
    reverted = world.policy(policy.id)
    assert (reverted.state, reverted.verdict) == ("reverted", "HARMED")
    assert "error rate" in (reverted.cause or "")
    assert world.cap() == 8


def test_the_proposer_may_not_approve_and_approval_names_what_was_shown(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(1)
    policy = world.operations.propose("chat", "active_cap", Setting(value=4), "try", by=ADA)
    with pytest.raises(Conflict, match="proposer"):
        world.operations.approve(policy.id, policy.shown_digest, by=ADA)
    with pytest.raises(Conflict, match="digest"):
        world.operations.approve(policy.id, "0" * 16, by=BOB)
    assert world.policy(policy.id).state == "pending"


@pytest.mark.parametrize("value", [0, 65, 1_000_000])
def test_a_value_out_of_range_is_refused_with_what_is_allowed(tmp_path: Path, value: int) -> None:
    world = World(tmp_path, quality=quality)
    world.run(1)
    with pytest.raises(Rejected) as refused:
        world.operations.propose("chat", "active_cap", Setting(value=value), "try", by=ADA)
    assert refused.value.value == value
    assert "1..64" in str(refused.value.allowed)
    assert world.policies() == []


def test_a_killed_controller_goes_on_with_the_trial_where_it_was(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    policy = world.approved(Setting(value=2))
    world.run(25)
    before = world.trial()
    world.store.close()
    world.run(4, loop=False)
    world.start_controller()
    world.run(900, until=lambda: world.policy(policy.id).state == "reverted")
    assert world.trial().plan == before.plan
    assert world.policy(policy.id).verdict == "HARMED"


def test_a_dead_controller_leaves_no_candidate_behind(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    world.approved(Setting(value=2))
    world.run(60, until=lambda: world.cap() == 2)
    assert world.cap() == 2
    world.run(60, loop=False)
    assert world.cap() == 8


def test_an_engine_that_dies_under_the_candidate_harms_and_comes_back_on_the_baseline(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))
    world.run(60, until=lambda: world.cap() == 16)
    world.run(1)
    world.engine.die()
    world.run(2)
    reverted = world.policy(policy.id)
    assert (reverted.state, reverted.cause) == ("reverted", "HARMED: engine death")
    assert world.cap() == 8


def test_an_engine_that_dies_under_the_baseline_only_voids_the_unit(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything)
    world.run(10)
    policy = world.approved(Setting(value=16))

    def baseline_runs() -> bool:
        stamp = world.engine.stamp.trial
        return stamp is not None and stamp.arm == "baseline"

    world.run(60, until=baseline_runs)
    world.run(1)
    world.engine.die()
    world.run(2)
    assert world.policy(policy.id).state == "on_trial"
    assert [u.void for u in world.trial().units if u.void] == ["engine restarted"]


def test_a_kept_policy_is_brought_back_to_a_restarted_engine(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(80)
    world.approved(Setting(law=LAW))
    world.run(900, until=lambda: bool(world.policies("kept")))
    world.engine.die()
    world.run(1)
    setting = world.engine.read().setting("active_cap")
    assert setting is not None and setting.law == LAW


def test_a_foreign_change_is_kept_voids_the_trial_and_its_knob_observes(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    policy = world.approved(Setting(value=2))
    world.run(5)
    seen = world.engine.read()
    foreign = Patch(
        change_id="somebody-else",
        epoch=seen.epoch,
        expected=seen.expected,
        settings=(SettingChange(knob="active_cap", value=32),),
    )
    world.engine.patch(foreign)
    world.run(3)
    assert world.cap() == 32
    ended = world.policy(policy.id)
    assert (ended.state, ended.cause, ended.verdict) == (
        "reverted",
        "foreign change",
        "INCONCLUSIVE",
    )
    with world.store.read() as tx:
        assert [one.setting.value for one in tx.overrides(state="active") if one.setting] == [32]
    world.run(65)
    assert world.cap() == 8


def test_hold_freezes_everything_and_release_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    policy = world.approved(Setting(value=2))
    world.run(30)
    cap = world.cap()
    report = world.operations.hold("chat", "looking at something", by=ADA)
    assert all(reached.ok for reached in report.replicas)
    world.run(120)
    assert world.policy(policy.id).state == "paused"
    assert world.engine.read().hold
    assert world.cap() == cap
    world.operations.release("chat", "done", by=ADA)
    world.run(900, until=lambda: world.policy(policy.id).state == "reverted")
    assert world.policy(policy.id).verdict == "HARMED"


def test_kill_stops_the_loop_and_goes_to_the_last_stable_settings(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    policy = world.approved(Setting(value=2))
    world.run(60, until=lambda: world.cap() == 2)
    report = world.operations.kill("chat", "enough", by=ADA)
    assert all(reached.ok for reached in report.replicas)
    assert world.cap() == 8
    world.run(30)
    assert world.policy(policy.id).state == "reverted"
    assert world.cap() == 8
    other = world.approved(Setting(value=16))
    world.run(30)
    assert world.policy(other.id).state == "approved"
    world.start_controller()
    world.run(30)
    assert world.policy(other.id).state == "approved", "the latch survives a restart"


def test_a_person_reverts_a_kept_policy(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(80)
    policy = world.approved(Setting(law=LAW))
    world.run(900, until=lambda: bool(world.policies("kept")))
    world.operations.revert(policy.id, "we changed our mind", by=ADA)
    world.run(1)
    assert world.policy(policy.id).state == "reverted"
    assert world.cap() == 8


def test_only_one_policy_is_on_trial_and_the_next_waits(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    first = world.approved(Setting(value=2))
    world.run(1)
    second = world.approved(Setting(value=4))
    world.run(20)
    assert world.policy(first.id).state == "on_trial"
    assert world.policy(second.id).state == "approved"


def test_incomplete_telemetry_gives_no_verdict(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    world.approved(Setting(value=2))
    world.run(1)
    trial = world.trial()
    world.rows.incomplete = {(trial.plan.id, block) for block in range(4)}
    world.run(60)
    voids = [unit.void for unit in world.trial().units[:2]]
    assert voids == ["incomplete telemetry", "incomplete telemetry"]


def test_every_frozen_figure_is_in_the_audit_before_the_first_block(tmp_path: Path) -> None:
    world = World(tmp_path, quality=quality)
    world.run(10)
    world.approved(Setting(value=2))
    world.run(1)
    with world.store.read() as tx:
        entries = tx.audit()
    frozen = next(entry for entry in entries if entry.action == "trial.frozen")
    applying = next(entry for entry in entries if entry.action == "policy.applying")
    plan = frozen.details["plan"]
    assert frozen.index < applying.index
    assert plan["alpha"] == repr(world.trial().plan.alpha)
    assert plan["seed"] == world.trial().plan.seed
    assert set(plan) == {f.name for f in msgspec.structs.fields(world.trial().plan)}
