"""Who may say yes to what, and what a yes is worth once things have moved."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.store.port import Principal
from policies.laws import Law, LawStep
from policies.policy import Policy
from policies.settings import Setting
from signals.errors import Conflict
from tests.loop.cases import anything, kept
from tests.loop.world import ADA, BOB, World

ADA_AGAIN = Principal(id="key_ada_2", name="ada", role="admin")
CEM = Principal(id="key_cem", name="cem", role="operator")
EVA = Principal(id="key_eva", name="eva", role="approver")
BOLD = Setting(
    law=Law(variable="arrivals", window_s=2.0, default=64, steps=(LawStep(above=0, value=4),))
)
"""A law, beyond what was tried, and it drains: high risk."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, quality=anything)
    made.run(1)
    return made


def proposed(world: World, value: int | None = None) -> Policy:
    setting = BOLD if value is None else Setting(value=value)
    return world.operations.propose("chat", "active_cap", setting, "try", by=ADA)


def yes(world: World, policy: Policy, by: Principal) -> Policy:
    return world.operations.approve(policy.id, policy.shown_digest, by=by)


def test_high_risk_needs_two_people_one_of_them_senior(world: World) -> None:
    policy = proposed(world)
    assert (policy.risk, policy.approvals_needed) == ("high", 2), policy.risk_why
    seconded = yes(world, policy, BOB)
    assert seconded.state == "pending"
    assert seconded.shown_digest == policy.shown_digest
    with pytest.raises(Conflict, match="at least one of the two must be an approver or admin"):
        yes(world, policy, CEM)
    approved = yes(world, policy, EVA)
    assert approved.state == "approved"
    assert [(one.name, one.role) for one in approved.approvals] == [
        ("bob", "operator"),
        ("eva", "approver"),
    ]
    moves = [a for a in world.actions() if a.startswith("policy.")]
    assert moves == ["policy.proposed", "policy.pending", "policy.seconded", "policy.approved"]


def test_a_senior_first_leaves_the_second_to_any_operator(world: World) -> None:
    policy = proposed(world)
    assert yes(world, policy, EVA).state == "pending"
    assert yes(world, policy, BOB).state == "approved"


def test_one_person_counts_once_also_with_a_second_key(world: World) -> None:
    policy = proposed(world)
    yes(world, policy, EVA)
    for again in (EVA, msgspec.structs.replace(EVA, id="key_eva_2")):
        with pytest.raises(Conflict, match="eva has approved it already"):
            yes(world, policy, again)
    for own in (ADA, ADA_AGAIN):
        with pytest.raises(Conflict, match="proposer"):
            yes(world, policy, own)
    assert len(world.policy(policy.id).approvals) == 1


def test_what_lowers_risk_may_be_approved_by_its_proposer_alone(world: World) -> None:
    kept(world, proposed(world, 16))
    back = proposed(world, 8)
    assert (back.risk, back.lowers_risk, back.approvals_needed) == ("low", True, 1)
    approved = yes(world, back, ADA)
    assert (approved.state, approved.approvals[0].solo) == ("approved", True)
    with world.store.read() as tx:
        entry = next(e for e in tx.audit(subject=back.id) if e.action == "policy.approved")
    assert entry.details["changes"]["approvals"][0]["solo"] is True


def test_somebody_else_s_yes_to_a_safer_change_is_not_solo(world: World) -> None:
    kept(world, proposed(world, 16))
    assert not yes(world, proposed(world, 8), BOB).approvals[0].solo


def test_a_yes_after_the_place_has_moved_is_refused_and_the_policy_superseded(
    world: World,
) -> None:
    waiting = proposed(world, 4)
    kept(world, proposed(world, 16))
    with pytest.raises(Conflict) as refused:
        yes(world, waiting, BOB)
    assert refused.value.field in ("before", "state")
    world.run(1)
    ended = world.policy(waiting.id)
    assert (ended.state, ended.cause) == (
        "superseded",
        "active_cap has moved: it was 8, it is 16",
    )


def test_an_approval_is_void_once_the_place_has_moved_before_it_began(world: World) -> None:
    first, second = proposed(world, 16), proposed(world, 4)
    yes(world, second, BOB)
    kept(world, first)
    world.run(1)
    assert world.policy(second.id).state == "superseded"
    assert world.cap() == 16


def test_a_proposal_that_nobody_answers_expires(tmp_path: Path) -> None:
    world = World(tmp_path, quality=anything, proposal_ttl_s=30)
    world.run(1)
    policy = proposed(world, 4)
    world.run(31, loop=False)
    with pytest.raises(Conflict, match="nobody answered in time"):
        yes(world, policy, BOB)
    world.run(1)
    assert (world.policy(policy.id).state, world.policy(policy.id).cause) == (
        "expired",
        "nobody answered in time",
    )


def test_a_newer_proposal_supersedes_older_ones_only_where_told(world: World) -> None:
    first, second = proposed(world, 4), proposed(world, 16)
    assert world.policy(first.id).state == "pending"
    third = world.operations.propose(
        "chat", "active_cap", Setting(value=4), "again", by=BOB, supersede=True
    )
    assert [world.policy(one.id).state for one in (first, second, third)] == [
        "superseded",
        "superseded",
        "pending",
    ]
    assert third.id in (world.policy(first.id).cause or "")


def test_a_denial_of_a_person_s_proposal_is_recorded_with_its_figures(world: World) -> None:
    proposed(world, 4)
    with pytest.raises(Conflict) as refused:
        proposed(world, 4)
    assert (refused.value.field, refused.value.value) == ("guardrail", "duplicate")
    with world.store.read() as tx:
        decision = tx.decisions(limit=1)[0]
    assert (decision.source, decision.guardrail) == ("person:ada", "duplicate")
    assert decision.denied is not None and "is pending on the same setting" in decision.denied


def test_a_policy_says_where_it_comes_from_and_what_it_may_not_make_worse(
    tmp_path: Path,
) -> None:
    rules = [{"id": "r1", "when": "batch.tokens_per_s > 300.0", "propose": {"active_cap": "down"}}]
    world = World(tmp_path, quality=anything, mode="approve", rules=rules)
    world.run(20)
    by_rule = next(p for p in world.policies("pending") if p.origin.kind == "rule")
    assert by_rule.origin.version == world.declared.rules.rules[0].digest
    assert [guard.metric for guard in by_rule.guards] == ["attainment:batch", "attainment:live"]
    assert "batch.tokens_per_s" in by_rule.reason
    by_hand = world.operations.propose("chat", "active_cap", Setting(value=16), "try", by=ADA)
    assert (by_hand.origin.name, by_hand.origin.version) == ("ada", "key_ada")
