"""Which layer wins, and which PATCH follows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from controller.desired import Desired, desired
from controller.reconciler import differs, plan_patch
from controller.store.port import Control
from controller.trial import blocks
from controller.trials import Trial, TrialPlan
from engine.knobs import embedded_knobs
from policies.overrides import Override
from policies.policy import Origin, Policy
from policies.runtime_config import Fallback, ObservedSetting, RuntimeConfig, TrialStamp
from policies.settings import Effective, OnKill, Setting

BASELINE = {"active_cap": Setting(value=8)}
FREE = Control(target="chat")
NOW_US = 1_000_000_000


def policy(name: str, state: str, value: int, *, emergency: bool = False) -> Policy:
    """A policy of the cap in some state."""
    return Policy(
        id=name,
        target="chat",
        knob="active_cap",
        before=Setting(value=8),
        setting=Setting(value=value),
        origin=Origin(kind="person", name="ada"),
        reason="a test",
        mode="approve",
        state=state,  # type: ignore[arg-type]
        emergency=emergency,
        proposed_by="ada",
        created_us=0,
        updated_us=0,
        expires_us=NOW_US + 60_000_000 if emergency else None,
    )


def trial(value: int, arm: str) -> Trial:
    """A trial of the cap whose open block has this arm."""
    plan = TrialPlan(
        id="tri",
        policy_id="p9",
        target="chat",
        knob="active_cap",
        hypothesis="",
        scale=1.0,
        guards=(),
        alpha=0.01,
        guard_alpha=0.05,
        min_units=7,
        max_units=60,
        block_s=30.0,
        washout_s=10.0,
        cycle_s=None,
        min_requests=30,
        seed=1,
        maximize="batch",
        reference_tokens_per_s=1.0,
        intents=(),
        max_error_rate=0.05,
        min_errors=20,
        baseline=Setting(value=8),
        candidate=Setting(value=value),
    )
    for seed in range(64):
        found = blocks.begin(
            Trial(plan=msgspec.structs.replace(plan, seed=seed), began_us=0), now_us=0
        )
        if found.units[0].blocks[0].arm == arm:
            return found
    raise AssertionError("a fair coin shows both sides within 64 tosses")


def wish(
    *policies: Policy,
    on: Trial | None = None,
    control: Control = FREE,
    overrides: Sequence[Override] = (),
    on_kill: OnKill = "last_stable",
) -> Desired:
    """The wish that follows."""
    return desired(BASELINE, policies, on, control, overrides, on_kill=on_kill, now_us=NOW_US)


def cap(found: Desired) -> int | None:
    """The wished cap."""
    return found.settings["active_cap"].setting.value


def test_the_baseline_is_the_lowest_layer() -> None:
    assert cap(wish()) == 8


def test_the_newest_kept_policy_wins_over_older_ones() -> None:
    assert cap(wish(policy("p2", "kept", 32), policy("p1", "kept", 16))) == 32


def test_an_emergency_wins_over_what_was_kept() -> None:
    assert cap(wish(policy("p9", "kept", 32), policy("p1", "in_force", 4, emergency=True))) == 4


def test_the_candidate_wins_in_its_block_only() -> None:
    kept = policy("p1", "kept", 16)
    candidate = wish(kept, on=trial(64, "candidate"))
    assert (cap(candidate), candidate.trial) == (64, TrialStamp(id="tri", block=0, arm="candidate"))
    baseline = wish(kept, on=trial(64, "baseline"))
    assert (cap(baseline), baseline.trial) == (16, TrialStamp(id="tri", block=0, arm="baseline"))


def test_a_tripped_unit_has_the_baseline_under_the_candidate_s_stamp() -> None:
    running = trial(64, "candidate")
    tripped = blocks.with_unit(running, msgspec.structs.replace(running.units[0], tripped=True))
    found = wish(on=tripped)
    assert cap(found) == 8
    assert found.trial is not None and found.trial.arm == "candidate"


def test_what_a_candidate_expires_to_is_the_layer_below_it() -> None:
    found = wish(policy("p1", "kept", 16), on=trial(64, "candidate")).settings["active_cap"]
    assert found.below is not None
    assert (found.below.setting.value, found.below.policy_id) == (16, "p1")
    assert found.expires_us == NOW_US + 45_000_000


@pytest.mark.parametrize(("on_kill", "value"), [("last_stable", 16), ("baseline", 8)])
def test_a_kill_goes_where_it_was_declared_to(on_kill: OnKill, value: int) -> None:
    killed = Control(target="chat", killed=True)
    emergency = policy("p2", "in_force", 4, emergency=True)
    found = wish(policy("p1", "kept", 16), emergency, control=killed, on_kill=on_kill)
    assert (cap(found), found.trial, found.hold) == (value, None, False)


def test_a_kill_to_hold_sends_nothing_but_the_hold() -> None:
    found = wish(
        policy("p1", "kept", 16), control=Control(target="chat", killed=True), on_kill="hold"
    )
    assert (found.sent(), found.hold) == ({}, True)


def test_what_is_forced_under_a_kill_to_hold_falls_back_to_what_was_kept() -> None:
    forced = pin(3, id="frc_1", kind="force")
    killed = Control(target="chat", killed=True)
    kept = policy("p1", "kept", 16)
    found = desired(BASELINE, [kept], None, killed, [forced], on_kill="hold", now_us=NOW_US)
    patch = plan_patch(found, seen(4), epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None
    assert [one.fallback for one in patch.settings] == [Fallback(value=16, policy_id="p1")]


def pin(value: int, **more: object) -> Override:
    """A pin of the cap that ends in a minute."""
    fields: dict[str, object] = {
        "id": "pin_1",
        "target": "chat",
        "kind": "pin",
        "knob": "active_cap",
        "setting": Setting(value=value),
        "reason": "a test",
        "by": "ada",
        "created_us": 0,
        "expires_us": NOW_US + 60_000_000,
    }
    return msgspec.convert(fields | more, Override)


def test_a_place_that_a_stranger_changed_is_left_alone_until_that_ends() -> None:
    found = pin(3, adopted="r0")
    assert (wish(overrides=(found,)).settings, wish(overrides=(found,)).left_alone) == (
        {},
        ("active_cap",),
    )
    over = msgspec.structs.replace(found, expires_us=NOW_US)
    assert cap(wish(overrides=(over,))) == 8


def test_a_person_s_pin_is_sent_where_a_stranger_changed_something() -> None:
    both = (pin(3, adopted="r0"), pin(5, id="pin_2"))
    assert (cap(wish(overrides=both)), wish(overrides=both).left_alone) == (5, ())


def seen(
    value: int, policy_id: str | None = None, *, ends_in_s: float | None = None
) -> RuntimeConfig:
    """What an engine shows; what ends falls back to the baseline."""
    below = None if ends_in_s is None else Fallback(value=8)
    knobs = embedded_knobs(
        capacity_active=64, capacity_budget=256, boot_active_cap=None, boot_step_token_budget=None
    )
    return RuntimeConfig(
        target="chat",
        replica="r0",
        incarnation="i1",
        version=3,
        digest="d",
        epoch=1,
        hold=False,
        engine_time=0.0,
        knobs=knobs,
        settings=(
            ObservedSetting(
                knob="active_cap",
                scope="target",
                value=value,
                policy_id=policy_id,
                expires_in_s=ends_in_s,
                fallback=below,
            ),
            ObservedSetting(knob="step_token_budget", scope="target", value=256),
        ),
    )


def test_an_engine_as_wished_gets_no_patch() -> None:
    assert plan_patch(wish(), seen(8), epoch=1, change_id="c", now_us=NOW_US) is None


def test_the_patch_names_the_state_it_expects_and_only_what_differs() -> None:
    patch = plan_patch(wish(), seen(64), epoch=5, change_id="c", now_us=NOW_US)
    assert patch is not None
    assert (patch.expected, patch.epoch, patch.hold) == ("i1:3", 5, None)
    assert [(s.knob, s.value, s.expires_in_s) for s in patch.settings] == [("active_cap", 8, None)]


def test_a_layer_that_is_gone_is_replaced_by_what_is_below_never_by_an_old_value() -> None:
    patch = plan_patch(wish(), seen(8, "p1"), epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None and patch.settings[0].policy_id is None


def test_a_candidate_carries_its_expiry_and_its_fallback() -> None:
    found = wish(policy("p1", "kept", 16), on=trial(64, "candidate"))
    patch = plan_patch(found, seen(16, "p1"), epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None
    change = patch.settings[0]
    assert change.fallback == Fallback(value=16, policy_id="p1")
    assert change.expires_in_s == pytest.approx(45.0)


def test_of_two_candidate_blocks_in_a_row_the_second_gets_its_own_expiry() -> None:
    found = wish(on=trial(64, "candidate"))
    before = TrialStamp(id="tri", block=7, arm="candidate")
    there = msgspec.structs.replace(seen(64, "p9", ends_in_s=20.0), trial=before)
    patch = plan_patch(found, there, epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None and found.trial != before
    assert [change.expires_in_s for change in patch.settings] == [pytest.approx(45.0)]
    same = msgspec.structs.replace(there, trial=found.trial)
    assert plan_patch(found, same, epoch=1, change_id="c", now_us=NOW_US) is None


def test_a_setting_that_ends_where_it_should_stay_is_sent_again() -> None:
    ends = seen(16, "p1", ends_in_s=20.0)
    patch = plan_patch(wish(policy("p1", "kept", 16)), ends, epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None and patch.settings[0].expires_in_s is None


def test_a_knob_without_any_wish_goes_to_its_boot_value() -> None:
    patch = plan_patch(Desired(settings={}), seen(8), epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None
    assert (patch.settings[0].value, patch.settings[0].law) == (None, None)
    assert differs(Desired(settings={}), seen(64)) == ()


def test_under_hold_only_the_hold_is_sent() -> None:
    held = Desired(settings={"active_cap": Effective(setting=Setting(value=2))}, hold=True)
    patch = plan_patch(held, seen(8), epoch=1, change_id="c", now_us=NOW_US)
    assert patch is not None
    assert (patch.settings, patch.hold) == ((), True)
