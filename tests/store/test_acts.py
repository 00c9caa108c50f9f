"""What people say of a target: overrides, declared changes, baselines; each bound to the audit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.port import Store
from controller.store.rows import content, encoded
from policies.baseline import Baseline
from policies.changes import DeclaredChange
from policies.overrides import Override
from policies.settings import Setting
from signals.errors import Broken, Conflict, NotFound
from tests.store.samples import NOW_US, fresh_id

HOUR_US = 3_600_000_000


def an_override(**fields: Any) -> Override:
    made: dict[str, Any] = {
        "id": fresh_id("ovr"),
        "target": "chat",
        "kind": "pin",
        "knob": "active_cap",
        "setting": Setting(value=8),
        "reason": "load test",
        "by": "key_ann",
        "created_us": NOW_US,
        "expires_us": NOW_US + HOUR_US,
    }
    return Override(**(made | fields))


def a_change(**fields: Any) -> DeclaredChange:
    made: dict[str, Any] = {
        "id": fresh_id("chg"),
        "target": "chat",
        "kind": "deploy",
        "words": "version 7 of the front end",
        "by": "key_ann",
        "from_us": NOW_US,
    }
    return DeclaredChange(**(made | fields))


def a_baseline(version: int, **fields: Any) -> Baseline:
    made: dict[str, Any] = {
        "target": "chat",
        "version": version,
        "settings": {"active_cap": Setting(value=version)},
        "managed_by": "api",
        "by": "key_ann",
        "reason": "as measured",
        "from_us": NOW_US + version,
    }
    return Baseline(**(made | fields))


def test_an_override_is_set_once_and_ended_once(store: Store, address: StoreAddress) -> None:
    override = an_override()
    with store.write() as tx:
        tx.add_override(override)
        assert tx.override(override.id) == override
    for again in (override, an_override(state="ended")):
        with pytest.raises(Conflict), store.write() as tx:
            tx.add_override(again)
    with store.write() as tx:
        ended = tx.end_override(override, cause="released", actor="key_bob", at_us=NOW_US + 1)
    assert (ended.state, ended.ended_by, ended.rev) == ("ended", "key_bob", 1)
    for seen in (override, ended):
        with pytest.raises(Conflict, match="ended already"), store.write() as tx:
            tx.end_override(seen, cause="again", actor="key_bob", at_us=NOW_US + 2)
    with store.read() as tx:
        assert tx.override(override.id) == ended
        set_, gone = tx.audit(subject=override.id)
        with pytest.raises(NotFound, match="no override"):
            tx.override("ovr_nope")
    assert (set_.action, set_.actor) == ("override.set", "key_ann")
    assert set_.details["content"] == content(encoded(override))
    assert (gone.action, gone.actor, gone.details["cause"]) == (
        "override.ended",
        "key_bob",
        "released",
    )
    assert gone.details["content"] == content(encoded(ended))
    assert verify(address).clean


def test_overrides_come_newest_first_in_pages(store: Store) -> None:
    made = [an_override(target="chat" if i % 2 else "other") for i in range(6)]
    with store.write() as tx:
        for override in made:
            tx.add_override(override)
        ended = tx.end_override(made[5], cause="released", actor="op", at_us=NOW_US)
    with store.read() as tx:
        assert tx.overrides() == [ended, *reversed(made[:5])]
        assert tx.overrides(limit=2, before=made[4].id) == [made[3], made[2]]
        assert tx.overrides(target="chat", state="active") == [made[3], made[1]]
        assert tx.overrides(state="ended") == [ended]


def test_a_declared_change_ends_once_and_is_found_by_when_it_was(
    store: Store, address: StoreAddress
) -> None:
    long_, short = a_change(), a_change(from_us=NOW_US + 50, until_us=NOW_US + 60)
    with store.write() as tx:
        for change in (long_, short):
            tx.add_declared_change(change, at_us=NOW_US)
    with pytest.raises(Conflict, match="exists already"), store.write() as tx:
        tx.add_declared_change(long_, at_us=NOW_US)
    with store.read() as tx:
        assert tx.declared_changes() == [short, long_]
        assert tx.declared_changes(from_us=NOW_US + 60) == [long_]
        assert tx.declared_changes(to_us=NOW_US + 50) == [long_]
        assert tx.declared_changes(target="other") == []
    with store.write() as tx:
        ended = tx.end_declared_change(long_.id, actor="key_bob", at_us=NOW_US + 70)
    assert ended.until_us == NOW_US + 70
    with pytest.raises(Conflict), store.write() as tx:
        tx.end_declared_change(long_.id, actor="key_bob", at_us=NOW_US + 80)
    with pytest.raises(NotFound), store.write() as tx:
        tx.end_declared_change("chg_nope", actor="key_bob", at_us=NOW_US)
    with store.read() as tx:
        assert tx.declared_change(long_.id) == ended
        actions = [(entry.action, entry.actor) for entry in tx.audit(subject=long_.id)]
    assert actions == [("change.declared", "key_ann"), ("change.ended", "key_bob")]
    assert verify(address).clean


def test_a_baseline_is_versioned_and_what_is_in_force_makes_no_new_version(
    store: Store, address: StoreAddress
) -> None:
    with store.write() as tx:
        assert tx.baseline("chat") is None
        first = tx.declare_baseline(a_baseline(1))
    with store.write() as tx:
        same = msgspec.structs.replace(first, version=2, from_us=NOW_US + 9)
        assert tx.declare_baseline(same) == first
    with pytest.raises(Conflict, match="at version 1"), store.write() as tx:
        tx.declare_baseline(a_baseline(3))
    with pytest.raises(Conflict), store.write() as tx:
        tx.declare_baseline(a_baseline(1, settings={}))
    with store.write() as tx:
        second = tx.declare_baseline(a_baseline(2))
    with store.read() as tx:
        assert tx.baseline("chat") == second
        assert tx.baselines("chat") == [first, second]
        assert tx.baseline("other") is None
        subjects = [entry.subject for entry in tx.audit()]
    assert subjects == ["chat@1", "chat@2"]
    assert verify(address).clean


def test_none_of_it_is_written_through_a_reading_transaction(store: Store) -> None:
    with store.read() as tx:
        for write in (
            lambda: tx.add_override(an_override()),
            lambda: tx.end_override(an_override(), cause="x", actor="op", at_us=NOW_US),
            lambda: tx.add_declared_change(a_change(), at_us=NOW_US),
            lambda: tx.declare_baseline(a_baseline(1)),
            lambda: tx.claim_answer("key_ann", "k", bytes(32), NOW_US),
        ):
            with pytest.raises(Broken, match="only reads"):
                write()
