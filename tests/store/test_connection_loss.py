"""A PostgreSQL that ends sessions, restarts or holds a lock: said clearly, and survived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.settings import StoreSettings
from controller.store.sql import SqlReader, SqlStore
from signals.errors import Broken, Unavailable
from tests.postgres import Postgres
from tests.store.samples import NOW_US, a_policy, stored_in

HASTY = StoreSettings(busy_timeout_ms=100, statement_timeout_ms=300)


@pytest.fixture(name="address")
def an_address(postgres: Postgres) -> Iterator[StoreAddress]:
    made = postgres.address()
    yield made
    postgres.drop(made)


def test_sessions_that_were_ended_between_two_transactions_are_replaced_unnoticed(
    postgres: Postgres, address: StoreAddress
) -> None:
    with closing(SqlStore(address)) as store:
        first = stored_in(store, "kept")
        assert postgres.end_sessions(address) == 1
        second = stored_in(store, "kept")
        with store.read() as tx:
            assert tx.policies() == [second, first]
        postgres.end_sessions(address)
        with store.read() as tx:
            assert tx.policies() == [second, first]
    assert verify(address).clean


def test_a_session_that_ends_inside_a_transaction_leaves_nothing_of_it(
    postgres: Postgres, address: StoreAddress
) -> None:
    with closing(SqlStore(address)) as store:
        policy = stored_in(store, "pending")
        with pytest.raises(Unavailable), store.write() as tx:
            tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
            postgres.end_sessions(address)
        with store.write() as tx:
            assert tx.policy(policy.id) == policy
            tx.move(policy, "rejected", actor="op", at_us=NOW_US + 9)
    checked = verify(address)
    assert (checked.findings, checked.entries) == ((), 3)


def test_a_server_that_restarts_is_survived_by_writer_and_readers(
    postgres: Postgres, address: StoreAddress
) -> None:
    with closing(SqlStore(address)) as store, closing(SqlReader(address)) as reader:
        policy = stored_in(store, "pending")
        with reader.read() as tx:
            assert tx.policies() == [policy]
        with pytest.raises(Unavailable), store.write() as tx:
            tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
            postgres.restart()
        with reader.read() as tx:
            assert tx.policies() == [policy]
        with store.write() as tx:
            moved = tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
        with reader.read() as tx:
            assert tx.policies() == [moved]
    assert verify(address).clean


def test_a_lock_that_does_not_come_is_given_up(address: StoreAddress) -> None:
    options = f"-c search_path={address.schema}"
    with (
        closing(SqlStore(address, HASTY)) as store,
        psycopg.connect(address.url, options=options) as other,
    ):
        policy = stored_in(store, "pending")
        other.execute("SELECT * FROM audit_head FOR UPDATE")
        with pytest.raises(Unavailable, match="lock timeout"), store.write() as tx:
            tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
        other.rollback()
        with store.write() as tx:
            tx.move(policy, "approved", actor="op", at_us=NOW_US + 9)
    assert verify(address).clean


def test_a_statement_that_takes_too_long_is_given_up(address: StoreAddress) -> None:
    with closing(SqlStore(address, HASTY)) as store:
        with pytest.raises(Unavailable, match="statement timeout"), store.read() as tx:
            tx._connection.exec_driver_sql("SELECT pg_sleep(60)")
        stored_in(store, "kept")


def test_too_many_connections_are_unavailable_and_not_a_defect(
    postgres: Postgres, address: StoreAddress
) -> None:
    name = address.url.partition("?")[0].rpartition("/")[2]
    postgres.execute(
        f"CREATE ROLE few LOGIN; ALTER ROLE few CONNECTION LIMIT 0; "
        f"GRANT CONNECT ON DATABASE {name} TO few"
    )
    few = StoreAddress(address.url.replace("postgres@", "few@"))
    with (
        pytest.raises(Unavailable, match="too many connections"),
        closing(SqlReader(few)) as reader,
        reader.read() as tx,
    ):
        tx.note("a")


def test_the_guards_refusal_is_a_defect_and_ends_only_its_transaction(
    address: StoreAddress,
) -> None:
    with closing(SqlStore(address)) as store:
        stored_in(store, "kept")
        with pytest.raises(Broken, match="audit entries never go"), store.write() as tx:
            tx.add_policy(a_policy())
            tx._connection.exec_driver_sql("DELETE FROM audit_entries")
        stored_in(store, "kept")
    assert verify(address).policies == 2
