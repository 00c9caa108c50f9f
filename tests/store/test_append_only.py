"""The database itself refuses to change the audit, whatever SQL is tried."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.audit.verify import verify
from controller.store.sql import SqlStore
from tests.store.samples import stored_in

COLUMNS = "leaf_index, at_us, actor, action, subject, target, stored, leaf_hash"
ATTEMPTS = {
    "change an entry": "UPDATE audit_entries SET actor = 'nobody' WHERE leaf_index = 1",
    "change nothing of an entry": "UPDATE audit_entries SET actor = actor WHERE leaf_index = 1",
    "remove an entry": "DELETE FROM audit_entries WHERE leaf_index = 1",
    "remove them all": "DELETE FROM audit_entries",
    "replace an entry": f"""INSERT OR REPLACE INTO audit_entries ({COLUMNS})
        SELECT 1, at_us, 'nobody', action, subject, target, stored, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "update by upsert": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT {COLUMNS} FROM audit_entries WHERE leaf_index = 1
        ON CONFLICT (leaf_index) DO UPDATE SET actor = 'nobody'""",
    "leave a hole": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT 99, at_us, actor, action, subject, target, stored, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "set the head back": "UPDATE audit_head SET size = size - 1",
    "let time fall": "UPDATE audit_head SET size = size + 1, at_us = at_us - 1",
    "remove the head": "DELETE FROM audit_head",
    "replace the head": "INSERT OR REPLACE INTO audit_head (id, size, at_us) VALUES (1, 0, 0)",
}


@pytest.fixture
def raw(store: SqlStore, path: Path) -> Iterator[sqlite3.Connection]:
    stored_in(store, "kept")
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_audit_only_grows(raw: sqlite3.Connection, path: Path, attempt: str) -> None:
    before = verify(path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(ATTEMPTS[attempt])
    assert verify(path) == before
    assert before.clean
