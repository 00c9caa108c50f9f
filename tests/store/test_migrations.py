"""The schema's history: equal to the tables, forward and back, with data in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from controller.audit.verify import TRIGGERS, verify
from controller.store.address import address_of
from controller.store.audit_file import open_audit
from controller.store.connecting import writing_engine
from controller.store.guard_check import revisions
from controller.store.migrate import downgrade, upgrade
from controller.store.settings import StoreSettings
from controller.store.sql import open_store
from controller.store.tables import metadata
from signals.errors import Rejected
from signals.settings import MetricSettings
from tests.store.samples import NOW_US, stored_in


def names(path: Path, kind: str) -> set[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = ?", (kind,))
        found = {str(name) for (name,) in rows}
    connection.close()
    return {name for name in found if not name.startswith("sqlite_")}


def test_the_migrations_build_exactly_the_tables(path: Path) -> None:
    upgrade(f"sqlite:///{path}")
    engine = writing_engine(address_of(path), StoreSettings())
    with engine.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert names(path, "table") == {*metadata.tables, "alembic_version"}


def test_every_append_only_trigger_is_there_and_the_verifier_knows_it(path: Path) -> None:
    upgrade(f"sqlite:///{path}")
    written = {guard.name for made in revisions() for guard in made if guard.sqlite is not None}
    assert names(path, "trigger") == set(TRIGGERS) == written
    with open_audit(path) as file:
        assert list(file.weak_guards()) == []


def test_back_a_revision_and_forward_again_keeps_every_record(path: Path) -> None:
    url = f"sqlite:///{path}"
    store = open_store(url)
    policies = [stored_in(store, "kept"), stored_in(store, "reverted")]
    store.close()
    before = verify(path)
    downgrade(url, "0001")
    assert names(path, "trigger") == set()
    assert {f for f in verify(path).findings if "trigger" not in f} == set()
    store = open_store(url)
    with store.read() as tx:
        assert tx.policies() == list(reversed(policies))
    store.close()
    assert verify(path) == before
    assert before.clean


def test_a_copy_of_an_older_store_is_verified_as_what_it_is(path: Path) -> None:
    url = f"sqlite:///{path}"
    store = open_store(url)
    stored_in(store, "kept")
    store.close()
    downgrade(url, "0002")
    assert "metric_definitions" not in names(path, "table")
    assert verify(path).clean


def test_definitions_dropped_behind_the_audits_back_are_missed(path: Path) -> None:
    url = f"sqlite:///{path}"
    store = open_store(url)
    with store.write() as tx:
        tx.declare("copied", MetricSettings(), managed_by="api", actor="ann", at_us=NOW_US)
    store.close()
    downgrade(url, "0002")
    upgrade(url)
    assert verify(path).findings == ("metric copied@1: the audit has it, the row is gone",)


def test_all_the_way_back_leaves_nothing_and_forward_again_begins_empty(path: Path) -> None:
    url = f"sqlite:///{path}"
    store = open_store(url)
    stored_in(store, "kept")
    store.close()
    downgrade(url, "base")
    assert names(path, "table") == {"alembic_version"}
    assert names(path, "trigger") == set()
    store = open_store(url)
    stored_in(store, "kept")
    with store.read() as tx:
        assert len(tx.policies()) == 1
    store.close()
    assert verify(path).clean


def test_opening_again_changes_nothing(path: Path) -> None:
    url = f"sqlite:///{path}"
    open_store(url).close()
    first = path.read_bytes()
    open_store(url).close()
    assert path.read_bytes() == first


def test_a_store_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    url = f"sqlite:///{path}"
    upgrade(url)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(Rejected, match="schema 9999") as refused:
        open_store(url)
    assert refused.value.allowed == "0001, 0002, 0003, 0004"
    assert names(path, "table") == {*metadata.tables, "alembic_version"}
