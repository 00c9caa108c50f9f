from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policies.guardrails import Around, Denied, admit
from policies.limits import Limits
from policies.policy import Policy
from policies.proposal import Proposal
from tests.policies.proposals import (
    CAP,
    FIXED,
    NOW_US,
    PERSON,
    PLANT,
    RULE,
    SECOND_US,
    law,
    limited,
    policy,
    wish,
)


def judged(
    *proposals: Proposal,
    policies: tuple[Policy, ...] = (),
    limits: Limits | None = None,
    **around: Any,
) -> tuple[tuple[Proposal, ...], tuple[Denied, ...]]:
    given = limits or limited()
    return admit(
        proposals,
        Around(policies=policies, specs={CAP.name: CAP, FIXED.name: FIXED}, **around),
        limits=lambda proposal: given,
        now_us=NOW_US,
    )


def denied_by(*proposals: Proposal, **given: Any) -> list[str]:
    return [one.guardrail for one in judged(*proposals, **given)[1]]


def test_one_step_along_the_ladder_is_admitted() -> None:
    admitted, denied = judged(wish(16))
    assert (len(admitted), denied) == (1, ())


@pytest.mark.parametrize(
    ("proposal", "words"),
    [
        (wish(128), "active_cap = 128 is out of range; allowed 1..64 sequences"),
        (wish(0), "active_cap = 0 is out of range; allowed 1..64 sequences"),
        (wish(law(128)), "active_cap = 128 is out of range; allowed 1..64 sequences"),
        (wish(law(8, above=-1.0)), "steps rise strictly in `above`, from 0"),
        (wish(knob="block_tokens"), "block_tokens is restart on this engine"),
        (wish(knob="batch"), "the engine has no knob batch; it has active_cap, block_tokens"),
    ],
)
def test_what_the_engine_can_not_take_is_denied_whoever_asks(
    proposal: Proposal, words: str
) -> None:
    for origin in (RULE, PLANT, PERSON):
        _, (denied,) = judged(msgspec.structs.replace(proposal, origin=origin))
        assert denied.guardrail == "knob"
        assert denied.words.startswith(words)


def test_a_rule_goes_one_ladder_value_beyond_what_was_in_force() -> None:
    _, (denied,) = judged(wish(64, before=8))
    assert denied.guardrail == "ladder"
    assert denied.figures == {"steps": 3.0, "allowed": 1.0}
    assert denied_by(wish(2, before=8)) == ["ladder"]
    assert denied_by(wish(4, before=8)) == []


def test_values_tried_before_widen_the_range() -> None:
    tried = policy(32, state="reverted", applied_us=NOW_US, updated_us=0)
    assert denied_by(wish(64, before=8), policies=(tried,)) == []
    assert denied_by(wish(16, before=8), policies=(tried,)) == []
    only_proposed = policy(32, state="rejected", updated_us=0)
    assert denied_by(wish(64, before=8), policies=(only_proposed,)) == ["ladder"]


def test_values_off_the_ladder_are_for_persons_only() -> None:
    assert denied_by(wish(12)) == ["ladder"]
    assert denied_by(wish(law(12), origin=PLANT)) == ["ladder"]
    assert denied_by(wish(12, origin=PERSON)) == []


def test_laws_of_the_plant_emergencies_and_persons_may_go_further() -> None:
    assert denied_by(wish(law(2), before=32, origin=PLANT)) == []
    assert denied_by(wish(2, before=64, emergency=True)) == []
    assert denied_by(wish(2, before=64, origin=PERSON)) == []


def test_a_change_of_nothing_is_denied() -> None:
    assert denied_by(wish(8, before=8, origin=PERSON)) == ["duplicate"]


@pytest.mark.parametrize("state", ["pending", "approved", "applying", "on_trial", "reverting"])
def test_a_knob_with_an_open_policy_takes_no_other(state: str) -> None:
    open_one = policy(4, state=state)
    assert denied_by(wish(16), policies=(open_one,)) == ["duplicate"]
    elsewhere = msgspec.structs.replace(open_one, target="other")
    assert denied_by(wish(16), policies=(elsewhere,)) == []


def test_a_person_may_queue_another_setting_but_not_the_same_one_twice() -> None:
    open_one = policy(4, state="pending")
    assert denied_by(wish(16, origin=PERSON), policies=(open_one,)) == []
    assert denied_by(wish(4, origin=PERSON), policies=(open_one,)) == ["duplicate"]


def test_an_emergency_passes_an_ordinary_policy_but_not_another_emergency() -> None:
    ordinary, urgent = policy(16, state="on_trial"), policy(4, state="in_force", emergency=True)
    assert denied_by(wish(4, emergency=True), policies=(ordinary,)) == []
    assert denied_by(wish(2, emergency=True), policies=(ordinary, urgent)) == ["duplicate"]
    assert denied_by(wish(16), policies=(urgent,)) == ["duplicate"]


def test_of_two_proposals_for_a_knob_the_emergency_wins_else_the_first() -> None:
    admitted, denied = judged(wish(16), wish(4, emergency=True))
    assert [one.setting.value for one in admitted] == [4]
    assert [one.guardrail for one in denied] == ["duplicate"]
    admitted, _ = judged(wish(16), wish(4))
    assert [one.setting.value for one in admitted] == [16]


@pytest.mark.parametrize("state", ["reverted", "rejected", "failed", "expired"])
def test_a_change_that_was_undone_or_refused_waits_for_its_cooldown(state: str) -> None:
    ended = policy(16, state=state, verdict="HARMED")
    _, (denied,) = judged(wish(16), policies=(ended,))
    assert (denied.guardrail, denied.figures) == ("cooldown", {"left_s": 540.0})
    assert "again in 540 s" in denied.words
    long_ago = msgspec.structs.replace(ended, updated_us=NOW_US - 600 * SECOND_US)
    assert denied_by(wish(16), policies=(long_ago,)) == []
    assert denied_by(wish(4), policies=(ended,)) == []
    assert denied_by(wish(16, origin=PERSON), policies=(ended,)) == []


def test_an_emergency_may_return_after_its_normal_end_but_not_after_harm() -> None:
    released = policy(4, state="reverted", emergency=True)
    harmful = msgspec.structs.replace(released, verdict="HARMED")
    again = wish(4, emergency=True)
    assert denied_by(again, policies=(released,)) == []
    assert denied_by(again, policies=(harmful,)) == ["cooldown"]


def test_only_so_many_policies_wait_for_a_person() -> None:
    waiting = tuple(policy(state="pending", knob=f"knob_{n}") for n in range(2))
    assert denied_by(wish(16), policies=waiting) == ["pending"]
    assert denied_by(wish(16), policies=waiting[:1]) == []


def test_a_target_is_changed_only_so_often_within_an_hour() -> None:
    applied = tuple(
        policy(4, state="kept", knob=f"knob_{n}", applied_us=NOW_US - n * SECOND_US)
        for n in range(3)
    )
    assert denied_by(wish(16), policies=applied) == ["rate"]
    assert denied_by(wish(16, origin=PERSON), policies=applied) == []
    assert denied_by(wish(4, emergency=True), policies=applied) == []
    earlier = msgspec.structs.replace(applied[2], applied_us=NOW_US - 3601 * SECOND_US)
    assert denied_by(wish(16), policies=(*applied[:2], earlier)) == []
