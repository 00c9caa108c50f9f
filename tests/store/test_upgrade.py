"""A store that the version before wrote, on both databases: opened, upgraded, verified, used.

``left_by_0003.jsonl`` holds its rows as that version wrote them, one a line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Connection, text

from controller.approving import approval_of
from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.connecting import writing_engine
from controller.store.migrate import newest, revision_of, upgrade
from controller.store.port import PolicyFilter, Principal
from controller.store.settings import StoreSettings
from controller.store.sql import SqlStore, open_store
from signals.errors import Conflict
from tests.store.samples import NOW_US

LEFT: Final = Path(__file__).with_name("left_by_0003.jsonl")
SHOWN_BEFORE: Final = "205905db5e9e5123"
"""The digest of the pending policy, as the version before showed it."""


@pytest.fixture
def left(empty: StoreAddress) -> Iterator[SqlStore]:
    """The store, after this version has opened it."""
    upgrade(empty, to="0003")
    engine = writing_engine(empty, StoreSettings())
    with engine.begin() as connection:
        for line in LEFT.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            _insert(connection, found["table"], found["row"])
    engine.dispose()
    with closing(open_store(empty)) as store:
        assert revision_of(empty) == newest()
        yield store
    assert verify(empty).findings == ()


def _insert(connection: Connection, table: str, row: dict[str, Any]) -> None:
    values = {
        name: bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
        for name, value in row.items()
    }
    marks = ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"), values)
    if table == "audit_entries":
        size = {"size": row["leaf_index"] + 1, "at_us": values["at_us"]}
        connection.execute(text("UPDATE audit_head SET size = :size, at_us = :at_us"), size)


def test_every_record_is_read_and_found_by_what_is_new(left: SqlStore) -> None:
    with left.read() as tx:
        policies = tx.policies()
        assert [one.state for one in policies] == ["on_trial", "approved", "kept", "pending"]
        assert {one.scope for one in policies} == {"target"}
        assert tx.policies(wanted=PolicyFilter(origin="plant", proposed_by="loop")) == policies
        (trial,) = tx.trials(target="chat", running=True)
        assert (trial.plan.policy_id, trial.plan.scope) == (policies[0].id, "target")
        assert [one.guardrail for one in tx.decisions()] == [None]
        assert tx.modes("chat") == {"active_cap": "approve"}
        assert not tx.control("chat").detached
        assert [one.name for one in tx.definitions()] == ["thumbs"]
        assert [one.knob for one in tx.foreign("chat")] == ["active_budget", "prefill_chunk"]
        key = tx.key_by_hash(hashlib.sha256(b"an old token").digest())
        assert key is not None
        assert (key.name, key.intents) == ("ann", ("*",))


def test_what_was_pending_is_approved_by_what_this_version_shows(left: SqlStore) -> None:
    """It shows more (scope, risk, evidence), so a yes to what was shown before is not one to it."""
    bob = Principal(id="key_bob", name="bob", role="operator")
    with left.write() as tx:
        (pending,) = tx.policies(states=("pending",))
        with pytest.raises(Conflict, match="look again"):
            approval_of(pending, SHOWN_BEFORE, bob, now_us=NOW_US)
        yes = approval_of(pending, pending.shown_digest, bob, now_us=NOW_US)
        moved = tx.move(pending, "approved", actor=bob.id, at_us=NOW_US, approvals=(yes,))
    with left.read() as tx:
        assert tx.policy(pending.id) == moved
