"""The settings book: expiries, laws and the hold, on a clock that only the test moves."""

from __future__ import annotations

import pytest

from policies.runtime_config import Fallback, SettingChange, TrialStamp
from tests.engine_settings.plant import Bench, at, chat_law


def causes(bench: Bench) -> list[str]:
    return [change.cause for change in bench.book.view(at(0.0)).changes if change.cause != "boot"]


def test_a_setting_expires_to_the_boot_value_and_says_so() -> None:
    bench = Bench()
    answer = bench.cap(10.0, 8, policy_id="p", expires_in_s=5.0)
    shown = answer.setting("active_cap")
    assert shown is not None
    assert (shown.expires_in_s, shown.next_change_at) == (5.0, at(15.0).wall_s)
    bench.book.pass_time(at(14.999))
    assert bench.observed == 8
    bench.book.pass_time(at(15.0))
    assert bench.observed == 32
    assert bench.book.stamp.version == 2
    assert bench.book.stamp.policies == ()
    last = bench.book.view(at(15.0)).changes[-1]
    assert (last.cause, last.before, last.after, last.policy_id) == ("expiry", 8, 32, "p")


def test_a_setting_expires_once() -> None:
    bench = Bench()
    bench.cap(0.0, 8, expires_in_s=1.0)
    for second in range(1, 5):
        bench.book.pass_time(at(float(second)))
    assert causes(bench) == ["patch", "expiry"]


def test_a_setting_expires_to_its_fallback_value_with_the_fallbacks_policy() -> None:
    bench = Bench()
    fallback = Fallback(value=16, policy_id="below")
    bench.cap(0.0, 8, policy_id="p", expires_in_s=1.0, fallback=fallback)
    bench.book.pass_time(at(1.0))
    assert bench.observed == 16
    assert bench.book.stamp.policies == ("below",)
    assert bench.book.setting("active_cap").expires_s is None


def test_a_setting_expires_to_its_fallback_law_which_looks_at_once() -> None:
    bench = Bench()
    bench.cap(0.0, 4, expires_in_s=1.0, fallback=Fallback(law=chat_law()))
    bench.meter.note("interactive", tokens=10, now_s=0.5)
    bench.book.pass_time(at(1.0))
    assert bench.observed == 8
    bench.book.pass_time(at(2.5))
    assert bench.observed == 64


def test_an_expiry_ends_the_trial_in_the_stamp() -> None:
    bench = Bench()
    change = SettingChange(knob="active_cap", value=8, expires_in_s=1.0)
    trial = TrialStamp(id="t", block=1, arm="candidate")
    bench.book.apply(bench.patch(change, trial=trial), at(0.0))
    bench.book.pass_time(at(1.0))
    assert bench.book.stamp.trial is None


def test_setting_a_knob_again_replaces_its_expiry() -> None:
    bench = Bench()
    bench.cap(0.0, 8, expires_in_s=1.0)
    bench.cap(0.5, 8, expires_in_s=10.0)
    bench.book.pass_time(at(5.0))
    assert bench.observed == 8
    bench.cap(6.0, 8)
    bench.book.pass_time(at(1000.0))
    assert bench.observed == 8


def test_a_law_moves_the_value_but_neither_version_nor_digest() -> None:
    bench = Bench()
    bench.cap(0.0, law=chat_law(), policy_id="law")
    stamp = bench.book.stamp
    assert bench.observed == 64
    bench.meter.note("interactive", tokens=10, now_s=5.0)
    bench.book.pass_time(at(5.0))
    assert bench.observed == 8
    bench.book.pass_time(at(6.999))
    assert bench.observed == 8
    bench.book.pass_time(at(7.0))
    assert bench.observed == 64
    assert bench.book.stamp is stamp
    moves = [c for c in bench.book.view(at(7.0)).changes if c.cause == "law"]
    assert [(c.before, c.after, c.version, c.policy_id) for c in moves] == [
        (64, 8, 1, "law"),
        (8, 64, 1, "law"),
    ]


def test_a_law_does_not_see_the_other_class() -> None:
    bench = Bench()
    bench.cap(0.0, law=chat_law())
    bench.meter.note("batch", tokens=10, now_s=1.0)
    bench.book.pass_time(at(1.0))
    assert bench.observed == 64


def test_a_law_that_is_set_again_goes_on_where_it_stood() -> None:
    bench = Bench()
    bench.cap(0.0, law=chat_law(min_dwell_s=60.0))
    bench.meter.note("interactive", tokens=10, now_s=1.0)
    bench.book.pass_time(at(1.0))
    assert bench.observed == 8
    bench.cap(10.0, law=chat_law(min_dwell_s=60.0))
    assert bench.observed == 8
    bench.cap(11.0, law=chat_law(min_dwell_s=59.0))
    assert bench.observed == 64


def test_a_hold_keeps_what_is_left_of_an_expiry_and_release_lets_it_go_on() -> None:
    bench = Bench()
    bench.cap(0.0, 8, expires_in_s=10.0)
    bench.book.apply(bench.patch(hold=True), at(4.0))
    bench.book.pass_time(at(1000.0))
    held = bench.book.view(at(1000.0)).setting("active_cap")
    assert held is not None
    assert (held.value, held.expires_in_s, held.next_change_at) == (8, 6.0, None)
    bench.book.apply(bench.patch(hold=False), at(1000.0))
    bench.book.pass_time(at(1005.9))
    assert bench.observed == 8
    bench.book.pass_time(at(1006.0))
    assert bench.observed == 32
    assert causes(bench) == ["patch", "patch", "hold", "patch", "release", "expiry"]


def test_a_hold_freezes_a_law_at_its_present_value_until_release() -> None:
    bench = Bench()
    bench.cap(0.0, law=chat_law())
    bench.meter.note("interactive", tokens=10, now_s=1.0)
    bench.book.pass_time(at(1.0))
    bench.book.apply(bench.patch(hold=True), at(1.5))
    bench.book.pass_time(at(100.0))
    assert bench.observed == 8
    bench.book.apply(bench.patch(hold=False), at(101.0))
    bench.book.pass_time(at(101.0))
    assert bench.observed == 64


def test_an_operator_may_patch_during_a_hold_and_its_expiry_waits() -> None:
    bench = Bench()
    bench.book.apply(bench.patch(hold=True), at(0.0))
    bench.cap(5.0, 4, expires_in_s=3.0)
    assert bench.observed == 4
    bench.book.pass_time(at(100.0))
    assert bench.observed == 4
    bench.book.apply(bench.patch(hold=False), at(100.0))
    bench.book.pass_time(at(103.0))
    assert bench.observed == 32


def test_hold_and_settings_in_one_patch_both_take_effect() -> None:
    bench = Bench()
    answer = bench.book.apply(
        bench.patch(SettingChange(knob="active_cap", value=2), hold=True), at(1.0)
    )
    assert (answer.hold, bench.observed) == (True, 2)
    assert [change.cause for change in answer.changes] == ["patch", "hold"]


def test_a_patch_that_does_not_speak_of_hold_leaves_it() -> None:
    bench = Bench()
    bench.book.apply(bench.patch(hold=True), at(0.0))
    assert bench.book.apply(bench.patch(), at(1.0)).hold
    assert bench.book.apply(bench.patch(hold=True), at(2.0)).hold
    assert causes(bench).count("hold") == 1


@pytest.mark.parametrize("wall_jump_s", [-86_400.0, 86_400.0])
def test_a_jump_of_the_wall_clock_neither_hastens_nor_delays_an_expiry(wall_jump_s: float) -> None:
    bench = Bench()
    bench.cap(0.0, 8, expires_in_s=10.0)
    jumped = at(9.9)
    bench.book.pass_time(type(jumped)(mono_s=9.9, wall_s=jumped.wall_s + wall_jump_s))
    assert bench.observed == 8
    bench.book.pass_time(type(jumped)(mono_s=10.0, wall_s=jumped.wall_s + wall_jump_s))
    assert bench.observed == 32
