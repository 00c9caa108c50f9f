"""The database itself refuses to change the audit, whatever SQL is tried; both databases do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.audit_file import open_audit
from controller.store.sql import SqlStore
from signals.settings import MetricSettings
from tests.store.guarded import REFUSALS, Raw, raw_access
from tests.store.samples import NOW_US, stored_in

COLUMNS = "leaf_index, at_us, actor, action, subject, target, stored, leaf_hash"
ATTEMPTS = {
    "change an entry": "UPDATE audit_entries SET actor = 'nobody' WHERE leaf_index = 1",
    "change nothing of an entry": "UPDATE audit_entries SET actor = actor WHERE leaf_index = 1",
    "drop bytes that no archive has": "UPDATE audit_entries SET stored = NULL",
    "remove an entry": "DELETE FROM audit_entries WHERE leaf_index = 1",
    "remove them all": "DELETE FROM audit_entries",
    "update by upsert": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT {COLUMNS} FROM audit_entries WHERE leaf_index = 1
        ON CONFLICT (leaf_index) DO UPDATE SET actor = 'nobody'""",
    "leave a hole": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT 99, at_us, actor, action, subject, target, stored, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "begin before the beginning": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT -1, at_us, actor, action, subject, target, stored, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "add an entry without bytes": f"""INSERT INTO audit_entries ({COLUMNS})
        SELECT 99, at_us, actor, action, subject, target, NULL, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "set the head back": "UPDATE audit_head SET size = size - 1",
    "set the head on": "UPDATE audit_head SET size = size + 1",
    "change nothing of the head": "UPDATE audit_head SET size = size",
    "let time fall": "UPDATE audit_head SET size = size + 1, at_us = at_us - 1",
    "remove the head": "DELETE FROM audit_head",
    "add a head": "INSERT INTO audit_head (id, size, at_us) VALUES (2, 0, 0)",
    "archive what is not there": """INSERT INTO audit_archives
        (first_index, last_index, sha256, body) SELECT 0, size, leaf_hash, ''
        FROM audit_head, audit_entries WHERE leaf_index = 0""",
    "archive from the middle": """INSERT INTO audit_archives
        (first_index, last_index, sha256, body) SELECT 1, 2, leaf_hash, ''
        FROM audit_entries WHERE leaf_index = 0""",
}
ONLY_SQLITE = {
    "replace an entry": f"""INSERT OR REPLACE INTO audit_entries ({COLUMNS})
        SELECT 1, at_us, 'nobody', action, subject, target, stored, leaf_hash
        FROM audit_entries WHERE leaf_index = 1""",
    "replace the head": "INSERT OR REPLACE INTO audit_head (id, size, at_us) VALUES (1, 0, 0)",
    "replace a definition": """INSERT OR REPLACE INTO metric_definitions
        (name, version, body, managed_by, owner, from_us, retired_us)
        SELECT name, version, '{}', managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
}
ONLY_POSTGRESQL = {
    "empty the audit": "TRUNCATE audit_entries",
    "empty the head": "TRUNCATE audit_head",
    "empty the archives": "TRUNCATE audit_archives",
    "empty the definitions": "TRUNCATE metric_definitions CASCADE",
    "change an entry as a replica": """SET session_replication_role = replica;
        UPDATE audit_entries SET actor = 'nobody' WHERE leaf_index = 1""",
    "show the guards another audit": f"""CREATE TEMPORARY TABLE audit_entries
        AS SELECT number AS leaf_index FROM generate_series(0, 99) AS number;
        INSERT INTO trimtab.audit_entries ({COLUMNS})
        SELECT 99, at_us, actor, action, subject, target, stored, leaf_hash
        FROM trimtab.audit_entries WHERE leaf_index = 1""",
    "merge into the audit": """MERGE INTO audit_entries e USING audit_head h ON e.leaf_index = 1
        WHEN MATCHED THEN UPDATE SET actor = 'nobody'""",
}
DEFINITION = "name, version, body, managed_by, owner, from_us, retired_us"
LATE = 9 * 10**18
ON_DEFINITIONS = {
    "change a definition": "UPDATE metric_definitions SET body = '{}' WHERE version = 2",
    "change nothing of a definition": "UPDATE metric_definitions SET body = body",
    "bring a retired one back": "UPDATE metric_definitions SET retired_us = NULL",
    "retire one again": f"UPDATE metric_definitions SET retired_us = {LATE} WHERE version = 1",
    "retire one before it was": "UPDATE metric_definitions SET retired_us = 1 WHERE version = 2",
    "retire and change one": f"""UPDATE metric_definitions SET retired_us = {LATE}, body = '{{}}'
        WHERE version = 2""",
    "remove a definition": "DELETE FROM metric_definitions WHERE version = 2",
    "put two in force": f"""INSERT INTO metric_definitions ({DEFINITION})
        SELECT name, 3, body, managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
    "leave a version out": f"""INSERT INTO metric_definitions ({DEFINITION})
        SELECT 'other', 2, body, managed_by, owner, from_us, NULL
        FROM metric_definitions WHERE version = 2""",
}


@pytest.fixture
def raw(store: SqlStore, address: StoreAddress) -> Iterator[Raw]:
    stored_in(store, "kept")
    with store.write() as tx:
        for high in (1.0, 2.0):
            metric = MetricSettings(high=high)
            tx.declare("stars", metric, managed_by="api", actor="ann", at_us=NOW_US)
    with raw_access(address) as connection:
        yield connection


def test_the_audit_only_grows_and_a_definition_is_only_retired_once(
    raw: Raw, address: StoreAddress, database: str
) -> None:
    before = verify(address)
    own = ONLY_SQLITE if database == "sqlite" else ONLY_POSTGRESQL
    for attempt, statement in {**ATTEMPTS, **ON_DEFINITIONS, **own}.items():
        try:
            raw.run(statement)
        except REFUSALS:
            continue
        pytest.fail(f"somebody could {attempt}")
    assert verify(address) == before
    assert before.clean


WEAKENED = {
    "sqlite": {
        "DROP TRIGGER audit_entries_never_go": "audit_entries_never_go is missing",
        "DROP TRIGGER audit_head_counts_up; CREATE TRIGGER audit_head_counts_up"
        " BEFORE UPDATE ON audit_head WHEN NEW.size < 0"
        " BEGIN SELECT RAISE(ABORT, 'the audit head counts up'); END": (
            "audit_head_counts_up is not as it was made"
        ),
    },
    "postgresql": {
        "DROP TRIGGER audit_entries_never_go ON audit_entries": "audit_entries_never_go is missing",
        "ALTER TABLE audit_head DISABLE TRIGGER audit_head_counts_up": (
            "audit_head_counts_up is not as it was made"
        ),
        "ALTER TABLE audit_entries ENABLE TRIGGER audit_entries_in_order": (
            "audit_entries_in_order is not as it was made"
        ),
        "CREATE OR REPLACE FUNCTION audit_head_is_one() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN NEW; END'": "audit_head_is_one is not as it was made",
        "ALTER FUNCTION audit_archives_in_order() SET search_path = pg_temp, trimtab": (
            "audit_archives_in_order is not as it was made"
        ),
    },
}


def test_a_guard_that_is_gone_or_weakened_is_named(
    raw: Raw, address: StoreAddress, database: str
) -> None:
    for number, (statements, finding) in enumerate(WEAKENED[database].items(), 1):
        parts = statements.split("; CREATE", 1)
        for statement in (parts[0], *(f"CREATE{rest}" for rest in parts[1:])):
            raw.run(statement)
        with open_audit(address) as file:
            found = list(file.weak_guards())
        assert len(found) == number
        assert f"database: the trigger {finding}" in found
