"""One writer, many readers: threads of one process, and other processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller.audit.verify import verify
from controller.store.address import StoreAddress, address_of
from controller.store.connecting import reading_engine, writing_engine
from controller.store.settings import StoreSettings
from controller.store.sql import SqlReader, SqlStore, open_store
from policies.lifecycle import State
from policies.policy import Policy
from signals.errors import Broken, Conflict, Unavailable
from tests.store.samples import NOW_US, stored_in

THREADS = 8
HASTY = StoreSettings(busy_timeout_ms=50)


def test_of_eight_who_approve_or_reject_at_once_one_wins(
    store: SqlStore, address: StoreAddress
) -> None:
    for _ in range(10):
        policy = stored_in(store, "pending")
        ready = threading.Barrier(THREADS)

        def decide(number: int, ready: threading.Barrier = ready, of: str = policy.id) -> object:
            after: State = "approved" if number % 2 else "rejected"
            with store.read() as tx:
                seen = tx.policy(of)
            ready.wait(timeout=30)
            try:
                with store.write() as tx:
                    return tx.move(seen, after, actor=f"key_{number}", at_us=NOW_US + 9)
            except Conflict as lost:
                return lost

        with ThreadPoolExecutor(THREADS) as pool:
            ends = list(pool.map(decide, range(THREADS)))
        (won,) = [end for end in ends if isinstance(end, Policy)]
        assert sum(isinstance(end, Conflict) for end in ends) == THREADS - 1
        with store.read() as tx:
            assert tx.policy(policy.id) == won
            assert len(tx.audit(subject=policy.id)) == 3
    assert verify(address).clean


def test_writers_in_many_threads_all_get_their_turn(store: SqlStore) -> None:
    def count(_: int) -> None:
        for _ in range(10):
            with store.write() as tx:
                tx.set_note("count", str(int(tx.note("count") or "0") + 1))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(count, range(THREADS)))
    with store.read() as tx:
        assert tx.note("count") == str(THREADS * 10)


def test_a_reader_keeps_its_snapshot_while_the_writer_goes_on(store: SqlStore) -> None:
    with store.write() as tx:
        tx.set_note("a", "1")
    with store.read() as reader:
        assert reader.note("a") == "1"
        with store.write() as tx:
            tx.set_note("a", "2")
            assert tx.note("a") == "2"
            assert reader.note("a") == "1"
        assert reader.note("a") == "1"
    with store.read() as reader:
        assert reader.note("a") == "2"


def test_another_process_reads_beside_the_writer(store: SqlStore, address: StoreAddress) -> None:
    policy = stored_in(store, "pending")
    program = (
        "import sys\n"
        "from controller.store.address import address_of\n"
        "from controller.store.sql import SqlReader\n"
        "with SqlReader(address_of(sys.argv[1])).read() as tx:\n"
        "    sys.stdout.write(tx.policies()[0].id)\n"
    )
    with store.write() as tx:
        tx.set_note("uncommitted", "1")
        read = subprocess.run(
            [sys.executable, "-c", program, address.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert read.stdout == policy.id


def test_a_second_writer_waits_for_the_lock_and_then_says_so(address: StoreAddress) -> None:
    first, second = SqlStore(address), SqlStore(address, HASTY)
    with first.write() as tx:
        tx.set_note("a", "1")
        with pytest.raises(Unavailable, match=r"locked|lock timeout"), second.write() as other:
            other.set_note("a", "2")
    with second.write() as tx:
        assert tx.note("a") == "1"
    first.close()
    second.close()


def test_a_write_inside_a_write_is_refused_rather_than_waiting_for_itself(store: SqlStore) -> None:
    with store.write() as tx:
        tx.set_note("a", "1")
        with pytest.raises(Broken, match="inside another"), store.write():
            pass
    with store.read() as tx:
        assert tx.note("a") == "1"


def test_a_store_that_is_not_there_yet_is_unavailable_until_it_is(empty: StoreAddress) -> None:
    reader = SqlReader(empty)
    with pytest.raises(Unavailable), reader.read() as tx:
        tx.note("a")
    open_store(empty).close()
    with reader.read() as tx:
        assert tx.note("a") is None
    reader.close()
    reader.close()


def test_a_reader_that_came_before_the_writer_sees_what_is_written_later(
    address: StoreAddress,
) -> None:
    """Ingest may start first, on a store that nobody has open: it must not read a frozen file."""
    reader = SqlReader(address)
    with reader.read() as tx:
        assert tx.note("a") is None
    store = open_store(address)
    with store.write() as tx:
        tx.set_note("a", "1")
    with reader.read() as tx:
        assert tx.note("a") == "1"
    store.close()
    with reader.read() as tx:
        assert tx.note("a") == "1"
    reader.close()


def test_commits_reach_the_disk_and_keys_are_checked(path: Path) -> None:
    engine = writing_engine(address_of(path), StoreSettings())
    with engine.begin() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    engine.dispose()
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
    }


def test_the_database_itself_refuses_writes_of_readers(address: StoreAddress) -> None:
    engine = reading_engine(address, StoreSettings())
    with (
        engine.begin() as connection,
        pytest.raises(Exception, match=r"readonly|read-only"),
        connection.begin_nested(),
    ):
        connection.exec_driver_sql("DELETE FROM notes")
    engine.dispose()
