"""Segments, deliveries, idempotent answers, the tree's leaves, and histories brought in at once."""

from __future__ import annotations

from typing import Any

import pytest

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.past_port import Answered, Delivery
from controller.store.port import Act, Store
from controller.store.sql import SqlStore
from policies.audit import canonical, leaf_hash
from policies.in_force import InForce, Segment
from signals.errors import Conflict, NotFound
from tests.store.samples import NOW_US, a_policy, stored_in

SECOND_US = 1_000_000


def a_segment(at_s: int, **fields: Any) -> Segment:
    made: dict[str, Any] = {
        "target": "chat",
        "replica": "r1",
        "from_us": NOW_US + at_s * SECOND_US,
        "incarnation": "inc_a",
        "version": at_s,
        "digest": f"d{at_s}",
        "cause": "patch",
        "settings": {"active_cap": InForce(value=at_s)},
    }
    return Segment(**(made | fields))


def put(store: Store, *segments: Segment) -> None:
    with store.write() as tx:
        for segment in segments:
            tx.add_segment(segment, actor="loop", at_us=segment.from_us)


def spans(found: list[Segment]) -> list[tuple[int, int | None]]:
    return [
        (
            (one.from_us - NOW_US) // SECOND_US,
            None if one.until_us is None else (one.until_us - NOW_US) // SECOND_US,
        )
        for one in found
    ]


def test_a_segment_ends_where_the_next_one_begins_also_within_one_transaction(
    store: Store,
) -> None:
    put(store, a_segment(1), a_segment(5))
    put(store, a_segment(3, replica="r2"), a_segment(9, known=False, settings={}))
    with store.read() as tx:
        assert spans(tx.segments("chat", replica="r1")) == [(1, 5), (5, 9), (9, None)]
        assert spans(tx.segments("chat")) == [(1, 5), (3, None), (5, 9), (9, None)]
        assert tx.segment_replicas("chat") == ["r1", "r2"]
        at = {s: tx.segment_at("chat", "r1", NOW_US + s * SECOND_US) for s in (0, 1, 6, 20)}
        assert at[0] is None
        assert [one.digest for one in (at[1], at[6]) if one is not None] == ["d1", "d5"]
        assert at[20] is not None
        assert not at[20].known
        found = tx.segment_of("inc_a", 5)
    assert found is not None
    assert found.digest == "d5"


def test_every_segment_points_at_the_audit_entry_that_holds_it(
    store: Store, address: StoreAddress
) -> None:
    stored_in(store, "pending")
    put(store, a_segment(1), a_segment(5), a_segment(6, known=False, settings={}))
    with store.read() as tx:
        found = tx.segments("chat")
        assert [one.entry for one in found] == [2, 3, 4]
        for one in found:
            (entry,) = tx.audit(after=(one.entry or 0) - 1, limit=1)
            known = "settings.observed" if one.known else "settings.unknown"
            assert (entry.action, entry.subject) == (known, "r1")
            assert entry.details["segment"]["digest"] == one.digest
    assert verify(address).clean


def a_delivery(entry: int, **fields: Any) -> Delivery:
    made: dict[str, Any] = {
        "id": f"pager:{entry}",
        "hook": "pager",
        "entry": entry,
        "due_us": NOW_US + entry,
        "created_us": NOW_US,
    }
    return Delivery(**(made | fields))


def test_a_delivery_is_owed_once_until_it_is_made_or_given_up(store: Store) -> None:
    owed = [a_delivery(number) for number in range(4)]
    with store.write() as tx:
        for one in (*owed, a_delivery(2, due_us=1)):
            tx.add_delivery(one)
        assert tx.due_deliveries(NOW_US + 2) == owed[:3]
        done = a_delivery(0, state="delivered", attempts=1)
        gone = a_delivery(1, state="given_up", attempts=9, error="HTTP 500")
        tx.save_delivery(done)
        tx.save_delivery(gone)
    with store.write() as tx:
        assert tx.due_deliveries(NOW_US + 9) == owed[2:]
        assert tx.deliveries() == [owed[3], owed[2], gone, done]
        assert tx.deliveries(state="given_up", hook="pager") == [gone]
        assert tx.deliveries(hook="other") == []
        assert tx.delivery("pager:0") == done
        with pytest.raises(NotFound):
            tx.delivery("pager:99")
        assert tx.prune_deliveries(NOW_US + 10) == 2
        assert tx.deliveries() == [owed[3], owed[2]]


def test_an_idempotency_key_is_claimed_by_one_and_a_clash_leaves_the_transaction_whole(
    store: Store,
) -> None:
    with store.write() as tx:
        tx.claim_answer("key_ann", "k1", b"a" * 32, NOW_US)
        with pytest.raises(Conflict, match="in use"):
            tx.claim_answer("key_ann", "k1", b"b" * 32, NOW_US)
        tx.claim_answer("key_bob", "k1", b"b" * 32, NOW_US + 5)
        tx.finish_answer("key_ann", "k1", 201, b"{}")
    with store.write() as tx:
        answered = tx.answered("key_ann", "k1")
        assert answered == Answered(request_sha256=b"a" * 32, at_us=NOW_US, status=201, body=b"{}")
        waiting = tx.answered("key_bob", "k1")
        assert waiting is not None
        assert waiting.status is None
        tx.drop_answer("key_bob", "k1")
        assert tx.answered("key_bob", "k1") is None
        assert tx.prune_answers(NOW_US) == 0
        assert tx.prune_answers(NOW_US + 1) == 1


def test_the_leaves_are_the_hashes_of_the_entries_and_heads_are_kept_newest_first(
    store: Store,
) -> None:
    stored_in(store, "kept")
    with store.write() as tx:
        for size in (2, 5):
            tx.add_tree_head(size, NOW_US, f"head {size}")
    with store.read() as tx:
        entries = tx.audit()
        assert tx.audit_size() == len(entries) == 5
        assert tx.leaf_hashes(1, 3) == [leaf_hash(canonical(one)) for one in entries[1:4]]
        assert tx.tree_heads() == ["head 5", "head 2"]
        assert tx.tree_heads(limit=1) == ["head 5"]


def an_act(number: int, **fields: Any) -> Act:
    made: dict[str, Any] = {
        "at_us": NOW_US + number,
        "actor": "import",
        "action": "history.told",
        "subject": f"s{number}",
        "target": "chat",
        "details": {"number": number, "share": 0.5},
    }
    return Act(**(made | fields))


def test_what_a_transaction_wrote_to_the_audit_it_also_reads_there(store: Store) -> None:
    with store.write() as tx:
        policy = tx.add_policy(a_policy())
        assert [entry.action for entry in tx.audit()] == ["policy.proposed"]
        tx.move(policy, "pending", actor="op", at_us=NOW_US)
        assert tx.audit_size() == 2
        assert len(tx.leaf_hashes(0, 9)) == 2
        assert tx.subjects("pol_") == [policy.id]
    with store.read() as tx:
        assert [entry.index for entry in tx.audit()] == [0, 1]


def test_a_history_is_brought_in_at_once_and_follows_what_is_there(
    store: SqlStore, address: StoreAddress
) -> None:
    stored_in(store, "kept")
    with store.write() as tx:
        tx.append_audit(
            at_us=NOW_US, actor="op", action="hold.set", subject="chat", target="chat", details={}
        )
        size = tx.append_many(an_act(n, at_us=NOW_US + 50 - n % 7) for n in range(1000))
        assert size == 1006
        assert tx.append_many([]) == 1006
    with store.write() as tx:
        tx.append_audit(
            at_us=1, actor="op", action="hold.lifted", subject="chat", target="chat", details={}
        )
    with store.read() as tx:
        entries = tx.audit(limit=2000)
    assert [entry.index for entry in entries] == list(range(1007))
    times = [entry.at_us for entry in entries]
    assert times == sorted(times)
    assert entries[7].details == {"number": 1, "share": "0.5"}
    assert verify(address).clean
