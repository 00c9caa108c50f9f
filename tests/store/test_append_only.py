"""The database itself refuses to change the audit, whatever SQL is tried."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.audit.verify import verify
from controller.store.sql import SqlStore
from signals.settings import MetricSettings
from tests.store.samples import NOW_US, stored_in

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

DEFINITION = "name, version, body, managed_by, owner, from_us, retired_us"
ON_DEFINITIONS = {
    "change a definition": "UPDATE metric_definitions SET body = '{}' WHERE version = 2",
    "change nothing of a definition": "UPDATE metric_definitions SET body = body",
    "bring a retired one back": "UPDATE metric_definitions SET retired_us = NULL",
    "retire one again": "UPDATE metric_definitions SET retired_us = 9e18 WHERE version = 1",
    "retire one before it was": "UPDATE metric_definitions SET retired_us = 1 WHERE version = 2",
    "retire and change one": """UPDATE metric_definitions SET retired_us = 9e18, body = '{}'
        WHERE version = 2""",
    "remove a definition": "DELETE FROM metric_definitions WHERE version = 2",
    "replace a definition": f"""INSERT OR REPLACE INTO metric_definitions ({DEFINITION})
        SELECT name, version, '{{}}', managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
    "put two in force": f"""INSERT INTO metric_definitions ({DEFINITION})
        SELECT name, 3, body, managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
    "leave a version out": f"""INSERT INTO metric_definitions ({DEFINITION})
        SELECT 'other', 2, body, managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
}


@pytest.fixture
def raw(store: SqlStore, path: Path) -> Iterator[sqlite3.Connection]:
    stored_in(store, "kept")
    with store.write() as tx:
        for high in (1.0, 2.0):
            metric = MetricSettings(high=high)
            tx.declare("stars", metric, managed_by="api", actor="ann", at_us=NOW_US)
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


@pytest.mark.parametrize("attempt", ON_DEFINITIONS)
def test_a_version_of_a_metric_is_only_retired_once(
    raw: sqlite3.Connection, path: Path, attempt: str
) -> None:
    before = verify(path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(ON_DEFINITIONS[attempt])
    assert verify(path) == before
    assert before.clean
