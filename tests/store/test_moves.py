"""The lifecycle, move by move, through the real store: the whole table and everything beside it."""

from __future__ import annotations

from typing import Any

import pytest

from controller.store.port import Store
from policies.lifecycle import MOVES, STATES, State
from signals.errors import Broken, Conflict, NotFound
from tests.store.samples import NOW_US, a_policy, stored_in


@pytest.mark.parametrize("before", STATES)
def test_a_move_outside_the_table_is_a_conflict_and_changes_nothing(
    used_store: Store, before: State
) -> None:
    policy = stored_in(used_store, before)
    with used_store.read() as tx:
        entries = tx.audit(subject=policy.id)
    for after in set(STATES) - set(MOVES[before]):
        with pytest.raises(Conflict) as refused, used_store.write() as tx:
            tx.move(policy, after, actor="op", at_us=NOW_US + 99)
        assert refused.value.field == "state"
        assert refused.value.value == after
    with used_store.read() as tx:
        assert tx.policy(policy.id) == policy
        assert tx.audit(subject=policy.id) == entries


@pytest.mark.parametrize(("before", "after"), [(b, a) for b in STATES for a in MOVES[b]])
def test_a_move_of_the_table_is_made_and_is_one_audit_entry(
    used_store: Store, before: State, after: State
) -> None:
    policy = stored_in(used_store, before)
    with used_store.read() as tx:
        entries = len(tx.audit())
    with used_store.write() as tx:
        moved = tx.move(policy, after, actor="op", at_us=NOW_US + 99, cause="why not")
    assert (moved.state, moved.rev, moved.updated_us) == (after, policy.rev + 1, NOW_US + 99)
    with used_store.read() as tx:
        assert tx.policy(policy.id) == moved
        (entry,) = tx.audit(after=entries - 1)
    assert (entry.action, entry.subject, entry.target) == (f"policy.{after}", policy.id, "chat")
    assert (entry.actor, entry.at_us, entry.index) == ("op", NOW_US + 99, entries)
    assert entry.details["before"] == before
    assert entry.details["after"] == after
    assert entry.details["rev"] == moved.rev
    assert entry.details["changes"] == {"cause": "why not"}


def test_a_proposal_is_audited_whole(store: Store) -> None:
    policy = a_policy()
    with store.write() as tx:
        tx.add_policy(policy)
    with store.read() as tx:
        (entry,) = tx.audit()
    assert entry.action == "policy.proposed"
    assert entry.actor == policy.proposed_by
    assert entry.details["policy"]["setting"]["law"]["steps"] == [{"above": "0.5", "value": 8}]
    assert entry.details["policy"]["evidence"] == {"step_ms": "27.6"}


def test_details_and_changes_go_with_a_move(store: Store) -> None:
    policy = stored_in(store, "pending")
    with store.write() as tx:
        moved = tx.move(
            policy,
            "approved",
            actor="key_1",
            at_us=NOW_US + 5,
            details={"shown": policy.shown_digest},
            decided_by="key_1",
        )
        (entry,) = tx.audit(subject=policy.id)[-1:]
    assert moved.decided_by == "key_1"
    assert entry.details["shown"] == policy.shown_digest


def test_who_moves_from_an_old_revision_has_lost(store: Store) -> None:
    policy = stored_in(store, "pending")
    with store.write() as tx:
        tx.move(policy, "rejected", actor="a", at_us=NOW_US + 9)
    with pytest.raises(Conflict, match="is rejected at rev 2") as lost, store.write() as tx:
        tx.move(policy, "approved", actor="b", at_us=NOW_US + 9)
    assert lost.value.field == "rev"


def test_a_transaction_that_fails_after_a_move_leaves_neither_row_nor_entry(store: Store) -> None:
    policy = stored_in(store, "pending")
    with store.read() as tx:
        before = (tx.policy(policy.id), tx.audit())
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
        _ = 1 // 0
    with store.read() as tx:
        assert (tx.policy(policy.id), tx.audit()) == before


def test_a_policy_begins_as_a_proposal_and_only_once(store: Store) -> None:
    policy = a_policy()
    with store.write() as tx:
        tx.add_policy(policy)
    with pytest.raises(Conflict, match="exists already"), store.write() as tx:
        tx.add_policy(policy)
    with pytest.raises(Conflict, match="a new policy is proposed"), store.write() as tx:
        tx.add_policy(a_policy(state="kept"))
    with store.read() as tx:
        assert len(tx.policies()) == len(tx.audit()) == 1


def test_an_unknown_policy_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="no policy pol_nope"), store.read() as tx:
        tx.policy("pol_nope")
    with pytest.raises(NotFound), store.write() as tx:
        tx.move(a_policy(), "pending", actor="op", at_us=NOW_US)


@pytest.mark.parametrize("field", ["id", "target", "rev", "updated_us", "colour"])
def test_a_move_changes_neither_identity_nor_unknown_fields(store: Store, field: str) -> None:
    policy = stored_in(store, "proposed")
    changes: dict[str, Any] = {field: 1}
    with pytest.raises(Broken, match=field), store.write() as tx:
        tx.move(policy, "pending", actor="op", at_us=NOW_US, **changes)


def test_a_caller_can_neither_hide_what_a_move_records_nor_record_a_move(store: Store) -> None:
    policy = stored_in(store, "proposed")
    with pytest.raises(Broken, match="content"), store.write() as tx:
        tx.move(policy, "pending", actor="op", at_us=NOW_US, details={"content": "x"})
    with pytest.raises(Broken, match=r"policy\.kept"), store.write() as tx:
        tx.append_audit(
            at_us=NOW_US,
            actor="op",
            action="policy.kept",
            subject=policy.id,
            target="chat",
            details={},
        )


def test_a_record_that_would_not_read_back_is_refused_at_once(store: Store) -> None:
    with pytest.raises(Broken, match="Policy can't be stored"), store.write() as tx:
        tx.add_policy(a_policy(evidence={"ratio": float("nan")}))
    policy = stored_in(store, "proposed")
    with pytest.raises(Broken, match="verdict"), store.write() as tx:
        tx.move(policy, "pending", actor="op", at_us=NOW_US, verdict="SPLENDID")
    with store.read() as tx:
        assert tx.policies() == [policy]
