"""The schema's history on both databases: equal to the tables, and each way with data in it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.audit_file import open_audit
from controller.store.connecting import writing_engine
from controller.store.guard_check import revisions
from controller.store.migrate import downgrade, revision_of, upgrade
from controller.store.past_port import Archive
from controller.store.settings import StoreSettings
from controller.store.sql import SqlStore, open_store
from controller.store.tables import metadata
from policies.policy import Policy
from signals.errors import Conflict, Rejected, TrimtabError
from signals.settings import MetricSettings
from tests.store.guarded import raw_access
from tests.store.samples import NOW_US, stored_in


def tables(address: StoreAddress) -> set[str]:
    """Of the store itself; SQLite keeps some of its own."""
    engine = writing_engine(address, StoreSettings())
    with engine.begin() as connection:
        found = set(inspect(connection).get_table_names())
    engine.dispose()
    return found


def triggers(address: StoreAddress) -> set[str]:
    if address.file is not None:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = (
            "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " WHERE NOT tgisinternal AND relnamespace = 'trimtab'::regnamespace"
        )
    with raw_access(address) as raw:
        return {str(name) for (name,) in raw.run(query)}


def test_the_migrations_build_exactly_the_tables(empty: StoreAddress) -> None:
    upgrade(empty)
    engine = writing_engine(empty, StoreSettings())
    with engine.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    assert tables(empty) == {*metadata.tables, "alembic_version"}


def test_names_sort_by_their_bytes_whatever_the_locale(address: StoreAddress) -> None:
    if address.file is None:
        query = (
            "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_collation l ON l.oid = a.attcollation"
            " WHERE c.relkind = 'r' AND c.relnamespace = 'trimtab'::regnamespace"
            " AND a.attname IN ('id', 'target', 'subject', 'action', 'key', 'name')"
            " AND l.collname <> 'C'"
        )
        with raw_access(address) as raw:
            assert raw.run(query) == [(0,)]
    with closing(SqlStore(address)) as store, store.write() as tx:
        for name in ("a", "B", "é", "Z", "_"):
            tx.declare(name, MetricSettings(), managed_by="api", actor="ann", at_us=NOW_US)
        assert [one.name for one in tx.definitions()] == ["B", "Z", "_", "a", "é"]


def test_every_append_only_trigger_is_there_and_the_verifier_knows_it(
    address: StoreAddress, database: str
) -> None:
    guards = [guard for made in revisions() for guard in made]
    if database == "sqlite":
        guards = [guard for guard in guards if guard.sqlite is not None]
    assert triggers(address) == {guard.name for guard in guards}
    with open_audit(address) as file:
        assert list(file.weak_guards()) == []


def test_back_a_revision_and_forward_again_keeps_every_record(address: StoreAddress) -> None:
    store = SqlStore(address)
    policies = [stored_in(store, "kept"), stored_in(store, "reverted")]
    store.close()
    before = verify(address)
    assert before.clean
    for to in ("0003", "0002", "0001"):
        downgrade(address, to)
        assert revision_of(address) == to
        upgrade(address)
        with closing(SqlStore(address)) as again, again.read() as tx:
            assert tx.policies() == list(reversed(policies))
        assert verify(address) == before
    downgrade(address, "0001")
    assert triggers(address) == set()
    assert [finding for finding in verify(address).findings if "trigger" not in finding] == []


def test_a_copy_of_an_older_store_is_verified_as_what_it_is(address: StoreAddress) -> None:
    with closing(SqlStore(address)) as store:
        stored_in(store, "kept")
    downgrade(address, "0002")
    assert "metric_definitions" not in tables(address)
    assert verify(address).clean


def test_definitions_dropped_behind_the_audits_back_are_missed(address: StoreAddress) -> None:
    with closing(SqlStore(address)) as store, store.write() as tx:
        tx.declare("copied", MetricSettings(), managed_by="api", actor="ann", at_us=NOW_US)
    downgrade(address, "0002")
    upgrade(address)
    assert verify(address).findings == ("metric copied@1: the audit has it, the row is gone",)


def test_all_the_way_back_leaves_nothing_and_forward_again_begins_empty(
    address: StoreAddress,
) -> None:
    with closing(SqlStore(address)) as store:
        stored_in(store, "kept")
    downgrade(address, "base")
    assert tables(address) == {"alembic_version"}
    assert triggers(address) == set()
    store = open_store(address)
    stored_in(store, "kept")
    with store.read() as tx:
        assert len(tx.policies()) == 1
    store.close()
    assert verify(address).clean


def test_entries_whose_bytes_lie_in_an_archive_forbid_to_go_back(address: StoreAddress) -> None:
    with closing(SqlStore(address)) as store:
        stored_in(store, "kept")
        archive = Archive(
            first=0,
            last=1,
            file="audit-0-1.jsonl.zst",
            sha256="ab" * 32,
            bytes=999,
            frame_entries=2,
            frames=(0,),
            at_us=NOW_US,
            by="ann",
        )
        with store.write() as tx:
            tx.add_archive(archive, actor="ann")
            assert tx.drop_stored(0, 1) == 2
    with pytest.raises(Conflict, match="lie in archives"):
        downgrade(address, "0003")
    assert revision_of(address) == "0005"
    with closing(SqlStore(address)) as store, store.read() as tx:
        assert [entry.archived for entry in tx.audit(limit=3)] == [True, True, False]


def test_opening_again_changes_nothing(address: StoreAddress) -> None:
    open_store(address).close()
    with raw_access(address) as raw:
        before = raw.run("SELECT * FROM audit_head"), raw.run("SELECT * FROM alembic_version")
        open_store(address).close()
        after = raw.run("SELECT * FROM audit_head"), raw.run("SELECT * FROM alembic_version")
    assert before == after
    if address.file is not None:
        first = address.file.read_bytes()
        open_store(address).close()
        assert address.file.read_bytes() == first


def test_of_many_who_start_at_once_one_migrates_and_the_others_wait(empty: StoreAddress) -> None:
    together = threading.Barrier(4)

    def start(number: int) -> Policy:
        together.wait(timeout=30)
        with closing(open_store(empty)) as store:
            return stored_in(store, "pending", knob=f"knob_{number}")

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(start, range(4)))
    with closing(SqlStore(empty)) as store, store.read() as tx:
        assert {policy.id for policy in tx.policies()} == {policy.id for policy in made}
    assert verify(empty).clean


def test_a_new_file_that_somebody_writes_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    first.execute("BEGIN IMMEDIATE")
    over = threading.Timer(0.3, first.execute, ("ROLLBACK",))
    over.start()
    with closing(open_store(path)) as store, store.read() as tx:
        assert over.finished.is_set()
        assert list(tx.policies()) == []
    first.close()


def test_a_store_of_a_newer_version_is_refused_and_left_alone(address: StoreAddress) -> None:
    with raw_access(address) as raw:
        raw.run("UPDATE alembic_version SET version_num = '9999'")
    acts: tuple[Callable[[], object], ...] = (
        lambda: open_store(address),
        lambda: downgrade(address, "0001"),
    )
    for act in acts:
        with pytest.raises(Rejected, match="schema 9999") as refused:
            act()
        assert refused.value.allowed == "0001, 0002, 0003, 0004, 0005"
    assert tables(address) == {*metadata.tables, "alembic_version"}


def test_what_a_revision_began_is_undone_when_it_fails(address: StoreAddress) -> None:
    with raw_access(address) as raw:
        raw.run("DROP TABLE idempotent_answers")
    with pytest.raises(TrimtabError):
        downgrade(address, "0003")
    assert revision_of(address) == "0005"
    assert "overrides" in tables(address)
    with open_audit(address) as file:
        assert list(file.weak_guards()) == []
