"""The settings book: what a patch does, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from policies.laws import Law, LawStep
from policies.runtime_config import MAX_EXPIRY_S, Fallback, SettingChange, TrialStamp
from signals.errors import Conflict, Rejected
from tests.engine_settings.plant import Bench, at, chat_law


def test_a_patch_changes_everything_it_names_at_once_and_shows_it() -> None:
    bench = Bench()
    answer = bench.book.apply(
        bench.patch(
            SettingChange(knob="active_cap", value=8, policy_id="p1"),
            SettingChange(knob="step_token_budget", value=128, policy_id="p2"),
            trial=TrialStamp(id="t", block=3, arm="candidate"),
        ),
        at(5.0),
    )
    cap, budget = answer.setting("active_cap"), answer.setting("step_token_budget")
    assert cap is not None
    assert budget is not None
    assert (cap.value, budget.value) == (8, 128)
    assert (answer.version, answer.expected, answer.applied_at) == (1, "cafe:1", at(5.0).wall_s)
    assert bench.book.stamp.policies == ("p1", "p2")
    assert bench.book.stamp.trial == TrialStamp(id="t", block=3, arm="candidate")
    assert [(c.cause, c.knob, c.before, c.after) for c in answer.changes] == [
        ("patch", "active_cap", 32, 8),
        ("patch", "step_token_budget", 512, 128),
    ]


def test_a_refused_patch_changes_nothing_even_where_part_of_it_was_good() -> None:
    bench = Bench()
    before = bench.book.view(at(1.0))
    with pytest.raises(Rejected) as refused:
        bench.book.apply(
            bench.patch(
                SettingChange(knob="active_cap", value=8),
                SettingChange(knob="step_token_budget", value=100_000),
                hold=True,
            ),
            at(1.0),
        )
    assert refused.value.field == "settings[1].value"
    assert refused.value.value == 100_000
    assert refused.value.allowed == "32..512 tokens"
    assert bench.book.view(at(1.0)) == before


def test_a_knob_that_a_patch_does_not_name_keeps_its_setting() -> None:
    bench = Bench()
    bench.cap(1.0, 8, policy_id="p")
    bench.book.apply(bench.patch(SettingChange(knob="step_token_budget", value=64)), at(2.0))
    assert bench.observed == 8
    assert bench.book.stamp.policies == ("p",)


def test_neither_value_nor_law_means_the_boot_value() -> None:
    bench = Bench()
    bench.cap(1.0, 8, policy_id="p")
    bench.cap(2.0)
    assert bench.observed == 32
    assert bench.book.stamp.policies == ()


def test_a_repeated_change_gets_the_first_answer_and_is_not_applied_again() -> None:
    bench = Bench()
    patch = bench.patch(SettingChange(knob="active_cap", value=8, expires_in_s=5.0))
    first = bench.book.apply(patch, at(1.0))
    bench.cap(2.0, 16)
    assert bench.book.apply(patch, at(3.0)) == first
    assert bench.observed == 16
    assert bench.book.stamp.version == 2


def test_a_change_id_never_names_two_changes() -> None:
    bench = Bench()
    bench.cap(1.0, 8)
    other = bench.patch(SettingChange(knob="active_cap", value=9), change_id="change-1")
    with pytest.raises(Conflict) as refused:
        bench.book.apply(other, at(2.0))
    assert refused.value.field == "change_id"
    assert bench.observed == 8


def test_a_refused_change_is_not_remembered_so_it_may_be_mended_and_sent_again() -> None:
    bench = Bench()
    stale = bench.patch(SettingChange(knob="active_cap", value=8), expected="cafe:9", change_id="x")
    with pytest.raises(Conflict):
        bench.book.apply(stale, at(1.0))
    mended = bench.patch(SettingChange(knob="active_cap", value=8), change_id="x")
    assert bench.book.apply(mended, at(1.0)).version == 1


def test_only_so_many_changes_are_remembered() -> None:
    bench = Bench(remembered=2)
    patches = [bench.patch(expected=f"cafe:{n}", change_id=f"c{n}") for n in range(3)]
    for number, patch in enumerate(patches):
        bench.book.apply(patch, at(float(number)))
    with pytest.raises(Conflict) as refused:
        bench.book.apply(patches[0], at(4.0))
    assert refused.value.field == "expected"
    assert bench.book.apply(patches[2], at(4.0)).version == 3


def test_a_lower_epoch_is_fenced_and_told_which_was_seen() -> None:
    bench = Bench()
    bench.book.apply(bench.patch(epoch=7), at(1.0))
    with pytest.raises(Conflict) as refused:
        bench.book.apply(bench.patch(epoch=6), at(2.0))
    assert (refused.value.field, refused.value.value) == ("epoch", 6)
    assert "6" in refused.value.detail
    assert "7" in refused.value.detail
    assert bench.book.apply(bench.patch(epoch=7), at(3.0)).epoch == 7


@pytest.mark.parametrize("expected", ["cafe:0", "cafe:2", "beef:1", "", "1"])
def test_anything_but_the_present_incarnation_and_version_is_stale(expected: str) -> None:
    bench = Bench()
    bench.cap(1.0, 8)
    with pytest.raises(Conflict) as refused:
        bench.book.apply(
            bench.patch(SettingChange(knob="active_cap", value=9), expected=expected or "?"),
            at(2.0),
        )
    assert (refused.value.field, refused.value.allowed) == ("expected", "cafe:1")
    assert bench.observed == 8


def law(**fields: Any) -> Law:
    base: dict[str, Any] = {
        "variable": "arrivals",
        "window_s": 2.0,
        "default": 64,
        "steps": (LawStep(above=0.0, value=8),),
    }
    return Law(**(base | fields))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"knob": "cap"}, "knob"),
        ({"scope": "live"}, "scope"),
        ({"value": 0}, "value"),
        ({"value": 65}, "value"),
        ({"value": True}, "value"),
        ({"value": 8, "law": law()}, ""),
        ({"law": law(default=65)}, "law.default"),
        ({"law": law(steps=())}, "law.steps"),
        (
            {"law": law(steps=(LawStep(above=1.0, value=8), LawStep(above=1.0, value=4)))},
            "law.steps",
        ),
        ({"law": law(steps=(LawStep(above=0.0, value=0),))}, "law.steps[0].value"),
        ({"law": law(class_="urgent")}, "law.class"),
        ({"law": law(window_s=0.0)}, "law.window_s"),
        ({"law": law(window_s=601.0)}, "law.window_s"),
        ({"value": 8, "expires_in_s": 0.0}, "expires_in_s"),
        ({"value": 8, "expires_in_s": MAX_EXPIRY_S + 1}, "expires_in_s"),
        ({"value": 8, "fallback": Fallback(value=99)}, "fallback.value"),
        ({"value": 8, "fallback": Fallback(law=law(default=0))}, "fallback.law.default"),
        ({"value": 8, "policy_id": ""}, "policy_id"),
        ({"knob": "step_token_budget", "value": 64, "shrink": "preempt"}, "shrink"),
        ({"knob": "step_token_budget", "value": 31}, "value"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(change: dict[str, Any], field: str) -> None:
    bench = Bench()
    with pytest.raises(Rejected) as refused:
        bench.book.apply(bench.patch(SettingChange(**{"knob": "active_cap"} | change)), at(1.0))
    assert not isinstance(refused.value, Conflict)
    assert refused.value.field == f"settings[0].{field}".rstrip(".")
    assert bench.book.stamp.version == 0


def test_one_patch_names_a_knob_once() -> None:
    bench = Bench()
    twice = [SettingChange(knob="active_cap", value=value) for value in (8, 9)]
    with pytest.raises(Rejected, match="twice"):
        bench.book.apply(bench.patch(*twice), at(1.0))


def test_the_digest_is_of_the_settings_and_of_nothing_else() -> None:
    bench = Bench()
    boot = bench.book.stamp.digest
    bench.cap(1.0, 8, policy_id="p", expires_in_s=60.0)
    eight = bench.book.stamp.digest
    assert eight != boot
    bench.book.apply(bench.patch(trial=TrialStamp(id="t", block=0, arm="baseline")), at(2.0))
    assert bench.book.stamp.digest == eight
    bench.cap(3.0, 32)
    assert bench.book.stamp.digest == boot
    bench.cap(4.0, law=chat_law())
    law_digest = bench.book.stamp.digest
    assert law_digest not in (boot, eight)
    bench.cap(5.0, law=chat_law(present=9))
    assert bench.book.stamp.digest != law_digest


def test_a_patch_without_a_trial_ends_the_one_in_the_stamp() -> None:
    bench = Bench()
    bench.book.apply(bench.patch(trial=TrialStamp(id="t", block=1, arm="baseline")), at(1.0))
    answer = bench.book.apply(bench.patch(), at(2.0))
    assert answer.trial is None
    assert bench.book.stamp.trial is None
    assert [change.cause for change in answer.changes] == ["patch"]


def test_a_lowered_cap_drains_until_no_more_run_than_it_allows() -> None:
    bench = Bench()
    answer = bench.book.apply(
        bench.patch(SettingChange(knob="active_cap", value=8)), at(1.0), running=20
    )
    cap = answer.setting("active_cap")
    assert cap is not None
    assert cap.draining
    settled = bench.book.view(at(2.0), running=8).setting("active_cap")
    assert settled is not None
    assert not settled.draining


def test_the_change_log_is_bounded_numbered_and_says_where_it_begins() -> None:
    bench = Bench()
    for number in range(1100):
        bench.book.apply(bench.patch(SettingChange(knob="active_cap", value=8)), at(float(number)))
    seen = bench.book.view(at(2000.0))
    numbers = [change.seq for change in seen.changes]
    assert len(numbers) == 1024
    assert numbers == list(range(seen.log_from, seen.log_from + 1024))
    tail = bench.book.view(at(2000.0), after_seq=numbers[-3]).changes
    assert [change.seq for change in tail] == numbers[-2:]


@pytest.mark.parametrize("block", [-1, 2**63])
def test_a_block_that_no_store_could_keep_is_refused(block: int) -> None:
    bench = Bench()
    with pytest.raises(Rejected) as refused:
        bench.book.apply(
            bench.patch(trial=TrialStamp(id="t", block=block, arm="candidate")), at(1.0)
        )
    assert refused.value.field == "trial.block"


@pytest.mark.parametrize("name", ["n№", "two words", "line\nbreak"])
def test_a_name_that_no_header_could_carry_is_refused(name: str) -> None:
    bench = Bench()
    with pytest.raises(Rejected) as refused:
        change = SettingChange(knob="active_cap", value=8, policy_id=name)
        bench.book.apply(bench.patch(change), at(1.0))
    assert refused.value.field == "settings[0].policy_id"
