"""A short transaction goes to PostgreSQL in one message: it is done whole, or not at all."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from msgspec.structs import replace
from sqlalchemy.engine import make_url

from controller.audit.verify import verify
from controller.store.address import StoreAddress
from controller.store.sql import SqlStore
from policies.policy import Policy
from signals.errors import Conflict, Rejected, Unavailable
from tests.postgres import Postgres, rows_of
from tests.store.samples import NOW_US, stored_in

AT_US = NOW_US + 9


@pytest.fixture(name="address")
def an_address(postgres: Postgres) -> Iterator[StoreAddress]:
    made = postgres.address()
    yield made
    postgres.drop(made)


@pytest.fixture(name="store")
def a_store(address: StoreAddress) -> Iterator[SqlStore]:
    with closing(SqlStore(address)) as store:
        yield store


def entries(address: StoreAddress) -> int:
    return verify(address).entries


def as_stored(store: SqlStore, policy: Policy) -> Policy:
    with store.read() as tx:
        return tx.policy(policy.id)


def test_a_move_that_lost_takes_the_moves_before_it_back(
    store: SqlStore, address: StoreAddress
) -> None:
    first, second = stored_in(store, "pending"), stored_in(store, "pending")
    with store.write() as tx:
        gone = tx.move(second, "rejected", actor="a", at_us=AT_US)
    before, writes = entries(address), store.writes
    with pytest.raises(Conflict, match="is rejected at rev 2"), store.write() as tx:
        tx.move(first, "approved", actor="b", at_us=AT_US)
        tx.move(second, "approved", actor="b", at_us=AT_US)
    assert (as_stored(store, first), as_stored(store, second)) == (first, gone)
    assert (entries(address), store.writes) == (before, writes)


def test_what_a_refusal_undid_leaves_the_session_as_good_as_it_was(
    store: SqlStore, address: StoreAddress
) -> None:
    policy = stored_in(store, "pending")
    for _ in range(8):
        with pytest.raises(ZeroDivisionError), store.write() as tx:
            tx.move(policy, "approved", actor="op", at_us=AT_US)
            assert tx.policy(policy.id).state == "approved"
            _ = 1 // 0
    with store.write() as tx:
        tx.move(policy, "approved", actor="op", at_us=AT_US)
    assert as_stored(store, policy).state == "approved"
    assert verify(address).clean


def test_two_writers_who_move_the_head_from_under_each_other_lose_nothing(
    store: SqlStore, address: StoreAddress
) -> None:
    with closing(SqlStore(address)) as other:
        policy = stored_in(store, "pending")
        for number in range(6):
            writer = (store, other)[number % 2]
            with writer.write() as tx:
                policy = tx.amend(policy, "seconded", actor="op", at_us=AT_US + number)
    assert as_stored(store, policy) == policy
    checked = verify(address)
    assert (checked.findings, checked.entries) == ((), 2 + 6)


def test_a_text_that_no_socket_holds_at_once_goes_through(
    store: SqlStore, address: StoreAddress
) -> None:
    policy, long = stored_in(store, "pending"), "é" * 3_000_000
    with store.write() as tx:
        moved = tx.move(policy, "rejected", actor="op", at_us=AT_US, cause=long)
    assert as_stored(store, policy) == moved
    assert verify(address).clean


def test_a_text_that_postgresql_can_not_hold_is_refused_and_not_cut_short(
    store: SqlStore, address: StoreAddress
) -> None:
    policy = stored_in(store, "pending")
    with pytest.raises(Rejected, match="NUL"), store.write() as tx:
        tx.move(policy, "rejected", actor="op\0erator", at_us=AT_US)
    assert as_stored(store, policy) == policy
    assert entries(address) == 2


def test_a_session_that_ends_while_it_waits_is_replaced(
    postgres: Postgres, store: SqlStore, address: StoreAddress
) -> None:
    policy = stored_in(store, "pending")

    def moved() -> Policy:
        with store.write() as tx:
            return tx.move(policy, "approved", actor="op", at_us=AT_US)

    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.url, options=options) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT * FROM audit_head FOR UPDATE")
        waiting = pool.submit(moved)
        while not _waits(address):
            pass
        postgres.end_sessions(address)
        with pytest.raises(Unavailable):
            waiting.result(timeout=60)
        other.close()
    assert as_stored(store, policy) == policy
    assert moved().state == "approved"
    assert verify(address).clean


class Line:
    """A line to the server that is cut when it is about to bring the next COMMIT's answer."""

    def __init__(self, folder: Path, server: str) -> None:
        self.cuts = False
        self._server = f"{server}/.s.PGSQL.5432"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/.s.PGSQL.5432")
        self._listening.listen()
        threading.Thread(target=self._join, daemon=True).start()

    def close(self) -> None:
        """Nobody gets a new line."""
        self._listening.close()

    def _join(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._bring, args=ends, daemon=True).start()

    def _bring(self, this: socket.socket, that: socket.socket) -> None:
        with this, suppress(OSError):
            while heard := this.recv(65536):
                if self.cuts and heard.endswith(b"Z\0\0\0\5I") and b"COMMIT\0" in heard:
                    break
                that.sendall(heard)
            that.shutdown(socket.SHUT_RDWR)


def test_where_only_the_answer_is_lost_it_is_durable_and_nobody_takes_what_he_read_for_new(
    store: SqlStore, address: StoreAddress
) -> None:
    policy = stored_in(store, "pending")
    server = make_url(address.url).query["host"]
    with tempfile.TemporaryDirectory() as folder, closing(Line(Path(folder), str(server))) as line:
        url = address.url.replace(quote(str(server), safe=""), quote(folder, safe=""))
        with closing(SqlStore(replace(address, url=url))) as other:
            with other.write() as tx:
                policy = tx.amend(policy, "seconded", actor="op", at_us=AT_US)
            writes, line.cuts = other.writes, True
            with pytest.raises(Unavailable), other.write() as tx:
                moved = tx.move(policy, "approved", actor="op", at_us=AT_US)
            line.cuts = False
            assert (as_stored(store, policy), other.writes) == (moved, writes + 1)
            with other.write() as tx:
                tx.amend(moved, "seconded", actor="op", at_us=AT_US)
    assert verify(address).clean


def test_a_code_that_nobody_knows_is_what_its_class_says(
    store: SqlStore, address: StoreAddress
) -> None:
    policy = stored_in(store, "pending")
    full = "BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53X99'; END"
    for statement in (
        f"CREATE FUNCTION full_now() RETURNS trigger LANGUAGE plpgsql AS $${full}$$",
        "CREATE TRIGGER full_now BEFORE UPDATE ON policies EXECUTE FUNCTION full_now()",
    ):
        rows_of(address, statement)
    with pytest.raises(Unavailable, match="full"), store.write() as tx:
        tx.move(policy, "approved", actor="op", at_us=AT_US)
    assert as_stored(store, policy) == policy


def _waits(address: StoreAddress) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return rows_of(address, query) == [(1,)]
