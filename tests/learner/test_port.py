"""What may be a context, an action, a menu."""

from __future__ import annotations

import math

import msgspec
import pytest

from controller.learner.eligible import policy_may_teach
from controller.learner.port import MAX_CONTEXT, Action, Arm, Context, Menu
from policies.policy import Approval, Origin, OriginKind, Policy
from policies.settings import Setting
from signals.errors import Rejected
from tests.learner.menus import CAPS, LADDER, cap


@pytest.mark.parametrize(
    "name",
    "waiting live.running target.kv_usage ttft_ms_p95 live.tokens_per_s attainment".split(),
)
def test_what_the_settings_change_is_no_context(name: str) -> None:
    with pytest.raises(Rejected, match="not exogenous"):
        Context.of({name: 1.0})


@pytest.mark.parametrize("name", "arrivals_per_s live.offered_tokens_per_s hour_sin".split())
def test_what_arrives_is_context(name: str) -> None:
    assert Context.of({name: 1.0}).features == ((name, 1.0),)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_is_refused_by_name(bad: float) -> None:
    with pytest.raises(Rejected) as caught:
        Context.of({"arrivals_per_s": bad})
    assert caught.value.field == "arrivals_per_s"


def test_a_context_is_bounded_and_in_name_order() -> None:
    assert Context.of({"b": 1, "a": 2}) == Context.of({"a": 2, "b": 1})
    with pytest.raises(Rejected, match="name order"):
        Context(features=(("b", 1.0), ("a", 1.0)))
    with pytest.raises(Rejected, match="name order"):
        Context.of({f"x{index}": 1.0 for index in range(MAX_CONTEXT + 1)})


def test_an_arm_is_on_its_ladder_and_an_action_has_one_arm_a_place() -> None:
    with pytest.raises(Rejected, match="off its ladder"):
        Arm.on(LADDER, "active_cap", Setting(value=5))
    arm = Arm.on(LADDER, "active_cap", Setting(value=4))
    with pytest.raises(Rejected, match="one arm a place"):
        Action.of(arm, arm)


def test_a_menu_always_allows_its_baseline_and_what_is_in_force() -> None:
    for mask in ((False, True), (True, False)):
        with pytest.raises(Rejected, match="always allowed"):
            Menu(actions=CAPS[:2], mask=mask, baseline=0, current=1)
    with pytest.raises(Rejected, match="different actions"):
        Menu(actions=(CAPS[0], CAPS[0]), mask=(True, True), baseline=0, current=0)
    with pytest.raises(Rejected, match="one mask bit"):
        Menu(actions=CAPS, mask=(True,), baseline=0, current=0)


def policy(
    *, origin: OriginKind = "learner", decided_by: str | None = "loop", emergency: bool = False
) -> Policy:
    return Policy(
        id="pol_1",
        target="chat",
        knob="active_cap",
        before=cap(4).arms[0].setting,
        setting=cap(8).arms[0].setting,
        origin=Origin(kind=origin, name="x"),
        reason="",
        mode="auto",
        proposed_by="x",
        decided_by=decided_by,
        emergency=emergency,
        created_us=0,
        updated_us=0,
    )


def test_only_what_the_loop_did_by_itself_may_be_learned_from() -> None:
    kinds: tuple[OriginKind, ...] = ("learner", "rule", "plant")
    assert [policy_may_teach(policy(origin=kind), overridden=False) for kind in kinds] == [""] * 3
    assert "person" in policy_may_teach(policy(origin="person"), overridden=False)
    assert "key_ann decided" in policy_may_teach(policy(decided_by="key_ann"), overridden=False)
    assert "nobody decided" in policy_may_teach(policy(decided_by=None), overridden=False)
    assert "emergency" in policy_may_teach(policy(emergency=True), overridden=False)
    assert "override" in policy_may_teach(policy(), overridden=True)


def test_an_approved_move_is_not_learned_from_whoever_began_it() -> None:
    yes = Approval(by="key_ann", at_us=1, shown_digest="0")
    approved = msgspec.structs.replace(policy(), approvals=(yes,))
    assert policy_may_teach(approved, overridden=False) == "key_ann approved it"
