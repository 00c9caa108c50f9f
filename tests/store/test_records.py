"""Everything else that the controller remembers."""

from __future__ import annotations

import msgspec
import pytest

from controller.store.port import Control, Foreign, Store
from controller.trials import Block, Unit
from policies.settings import Setting
from signals.errors import Broken, Conflict, NotFound, Rejected
from tests.store.samples import LAW, NOW_US, a_decision, a_policy, a_trial, stored_in


def test_policies_come_newest_first_in_pages_by_target_and_state(store: Store) -> None:
    mine = [stored_in(store, "pending" if i % 2 else "proposed") for i in range(6)]
    other = stored_in(store, "pending", target="other")
    with store.read() as tx:
        assert tx.policies() == [other, *reversed(mine)]
        assert tx.policies(target="chat", limit=2) == [mine[5], mine[4]]
        assert tx.policies(target="chat", limit=2, before=mine[4].id) == [mine[3], mine[2]]
        assert tx.policies(states=["pending"]) == [other, mine[5], mine[3], mine[1]]
        assert tx.policies(states=[]) == []


def test_a_trial_is_saved_by_compare_and_set(store: Store) -> None:
    policy = stored_in(store, "on_trial")
    with store.write() as tx:
        first = tx.save_trial(a_trial(policy))
    unit = Unit(index=0, blocks=(Block(index=0, arm="baseline", began_us=NOW_US),), d={"U": 0.1})
    with store.write() as tx:
        second = tx.save_trial(msgspec.structs.replace(first, units=(unit,)))
        assert tx.trial(first.plan.id) == second
    assert (first.rev, second.rev) == (1, 2)
    with pytest.raises(Conflict, match="has moved on"), store.write() as tx:
        tx.save_trial(msgspec.structs.replace(first, trips=3))
    with pytest.raises(Conflict, match="has moved on"), store.write() as tx:
        tx.save_trial(msgspec.structs.replace(first, rev=0))
    with store.read() as tx:
        assert tx.trial(first.plan.id) == second


def test_trials_are_listed_newest_first_and_by_whether_they_run(store: Store) -> None:
    policy = stored_in(store, "on_trial")
    with store.write() as tx:
        done = tx.save_trial(a_trial(policy, began_us=NOW_US, state="done"))
        paused = tx.save_trial(a_trial(policy, began_us=NOW_US + 1, state="paused"))
        running = tx.save_trial(a_trial(policy, began_us=NOW_US + 2))
    with store.read() as tx:
        assert tx.trials() == [running, paused, done]
        assert tx.trials(running=True) == [running, paused]
        assert tx.trials(running=False, target="chat") == [done]
        assert tx.trials(target="other") == []
        with pytest.raises(NotFound, match="no trial"):
            tx.trial("tri_nope")


def test_a_trial_of_no_known_policy_is_refused_at_commit(store: Store) -> None:
    with pytest.raises(Broken, match=r"(?i)foreign key"), store.write() as tx:
        tx.save_trial(a_trial(a_policy()))
    with store.write() as tx:
        policy = a_policy()
        tx.save_trial(a_trial(policy))
        tx.add_policy(policy)
    with store.read() as tx:
        assert len(tx.trials()) == 1


def test_decisions_are_kept_to_be_replayed(store: Store) -> None:
    made = [a_decision(seed=2**63 - 1), a_decision(target="other"), a_decision(denied="held")]
    with store.write() as tx:
        for decision in made:
            tx.add_decision(decision)
    with store.read() as tx:
        assert tx.decisions() == list(reversed(made))
        assert tx.decisions(target="chat", limit=1) == [made[2]]
    with pytest.raises(Conflict, match="exists already"), store.write() as tx:
        tx.add_decision(made[0])


def test_states_of_learners_are_forgotten_the_oldest_first_however_many_at_once(
    store: Store, database: str
) -> None:
    """SQLite takes no condition of a thousand parts; PostgreSQL takes any."""
    many = 1000 if database == "sqlite" else 10
    with store.write() as tx:
        for age in range(many + 3):
            tx.keep_learner("chat", f"{age}", "{}", at_us=NOW_US - age)
        assert tx.prune_learners(NOW_US, limit=many) == many
        assert [tx.learner("chat", f"{age}") for age in (2, 3, many)] == ["{}", None, None]
        assert tx.prune_learners(NOW_US, limit=many) == 2
        assert tx.learner("chat", "0") == "{}"


def test_controls_modes_foreign_changes_and_notes_are_replaced(store: Store) -> None:
    foreign = Foreign(
        target="chat",
        knob="active_cap",
        setting=Setting(law=LAW),
        seen_us=NOW_US,
        until_us=NOW_US + 1,
        change_id=None,
    )
    later = msgspec.structs.replace(foreign, setting=Setting(value=4))
    with store.write() as tx:
        assert tx.control("chat") == Control(target="chat")
        assert (tx.modes("chat"), tx.foreign("chat"), tx.note("cursor")) == ({}, [], None)
        tx.set_control(Control(target="chat", hold=True, actor="op", since_us=NOW_US))
        tx.set_control(Control(target="chat", killed=True))
        tx.set_mode("chat", "active_cap", "observe")
        tx.set_mode("chat", "active_cap", "auto")
        tx.set_mode("other", "active_cap", "approve")
        tx.set_foreign(foreign)
        tx.set_foreign(later)
        tx.set_note("cursor", "17")
        tx.set_note("cursor", "18")
    with store.read() as tx:
        assert tx.control("chat") == Control(target="chat", killed=True)
        assert tx.modes("chat") == {"active_cap": "auto"}
        assert tx.foreign("chat") == [later]
        assert tx.note("cursor") == "18"
    with store.write() as tx:
        tx.clear_foreign("chat", "active_cap")
        tx.clear_foreign("chat", "never_was")
        assert tx.foreign("chat") == []


def test_audit_entries_are_contiguous_and_time_never_falls(store: Store) -> None:
    for at_us in (NOW_US + 5, NOW_US, NOW_US + 9):
        with store.write() as tx:
            tx.append_audit(
                at_us=at_us,
                actor="op",
                action="hold.set",
                subject="chat",
                target="chat",
                details={"for_s": 1.5, "seed": 2**63, "setting": Setting(value=3)},
            )
    with store.read() as tx:
        entries = tx.audit()
        assert [entry.index for entry in entries] == [0, 1, 2]
        assert [entry.at_us for entry in entries] == [NOW_US + 5, NOW_US + 5, NOW_US + 9]
        assert tx.audit(after=0, limit=1) == entries[1:2]
        assert tx.audit(target="other") == tx.audit(subject="else") == []
    assert entries[0].details == {
        "for_s": "1.5",
        "seed": str(2**63),
        "setting": {"law": None, "shrink": "drain", "value": 3},
    }


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_list_has_a_bound(store: Store, limit: int) -> None:
    with store.read() as tx, pytest.raises(Rejected, match="limit") as refused:
        tx.policies(limit=limit)
    assert refused.value.allowed == "1..10000 rows"


def test_nothing_is_written_through_a_reading_transaction(store: Store) -> None:
    policy = stored_in(store, "proposed")
    with store.read() as tx:
        for write in (
            lambda: tx.add_policy(a_policy()),
            lambda: tx.move(policy, "pending", actor="op", at_us=NOW_US),
            lambda: tx.set_note("a", "b"),
            lambda: tx.add_decision(a_decision()),
            lambda: tx.clear_foreign("chat", "active_cap"),
            lambda: tx.set_mode("chat", "active_cap", "auto"),
        ):
            with pytest.raises(Broken, match="only reads"):
                write()
