"""What only the durable bus must do."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from signals.bus.pending import Append
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.errors import Broken, Unavailable
from tests.signals.bus_contract import append, message, numbers

POISON = Message(key="chat", body=b"\x00", producer="shop", accepted_us=2)


def first_segment(folder: Path) -> Path:
    return folder / "bus" / "00000000000000000001.db"


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    first = SqliteBus(tmp_path / "bus")
    with pytest.raises(Unavailable, match="another process"):
        SqliteBus(tmp_path / "bus")
    first.close()
    SqliteBus(tmp_path / "bus").close()


def test_a_log_of_another_schema_is_refused(tmp_path: Path) -> None:
    SqliteBus(tmp_path / "bus").close()
    with sqlite3.connect(first_segment(tmp_path)) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(Broken, match="schema 99"):
        SqliteBus(tmp_path / "bus")


def test_reading_before_there_is_a_log_is_unavailable_and_works_later(tmp_path: Path) -> None:
    reader = SqliteBusReader(tmp_path / "bus")
    with pytest.raises(Unavailable):
        reader.end()
    bus = SqliteBus(tmp_path / "bus")
    append(bus, 1)
    assert reader.end() == 1
    reader.close()
    bus.close()


def test_a_full_queue_refuses_at_once_and_recovers(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus", BusSettings(queue_events=10))
    blocker = sqlite3.connect(first_segment(tmp_path), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    first = bus.append([message(number) for number in range(8)])
    with pytest.raises(Unavailable, match="already wait"):
        bus.append([message(number) for number in range(3)])
    blocker.execute("ROLLBACK")
    blocker.close()
    first.result(10)
    append(bus, *range(50))
    bus.close()


def test_a_failed_commit_fails_its_batches_and_leaves_no_trace(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus")
    append(bus, 1)
    with sqlite3.connect(first_segment(tmp_path)) as saboteur:
        saboteur.execute(
            "CREATE TRIGGER no BEFORE INSERT ON frames WHEN instr(new.bodies, x'00')"
            " BEGIN SELECT RAISE(ABORT, 'disk trouble'); END"
        )
    failed = bus.append([message(2), POISON])
    with pytest.raises(Unavailable, match="disk trouble"):
        failed.result(10)
    assert not bus.healthy()
    append(bus, 3)
    eventually_healthy(bus)
    reader = SqliteBusReader(tmp_path / "bus")
    assert numbers(reader.read(after=0, limit=9)) == [1, 3]
    reader.close()
    saboteur.close()
    bus.close()


def eventually_healthy(bus: SqliteBus) -> None:
    deadline_s = time.monotonic() + 10
    while not bus.healthy():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


class Counting(SqliteBus):
    """Notes how many appends each commit carried."""

    def __init__(self, path: Path, settings: BusSettings) -> None:
        self.commits: list[int] = []
        super().__init__(path, settings)

    def _commit(self, group: list[Append]) -> None:
        self.commits.append(len(group))
        super()._commit(group)


def append_ten(bus: SqliteBus) -> None:
    for number in range(10):
        append(bus, number)


def test_appends_that_meet_share_a_commit(tmp_path: Path) -> None:
    bus = Counting(tmp_path / "bus", BusSettings(commit_ms=20))
    threads = [threading.Thread(target=lambda: append_ten(bus)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bus.close()
    assert sum(bus.commits) == 200
    assert len(bus.commits) <= 60


class Mistaken(SqliteBus):
    """Has a mistake in its commit, after the transaction was begun."""

    def _commit(self, group: list[Append]) -> None:
        raise ZeroDivisionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_dies_of_a_mistake_leaves_nobody_waiting(tmp_path: Path) -> None:
    bus = Mistaken(tmp_path / "bus")
    with pytest.raises(Unavailable, match="has stopped"):
        bus.append([message(1)]).result(10)
    with pytest.raises(Unavailable, match="closed"):
        for _ in range(1000):
            bus.append([message(2)]).result(10)
    assert not bus.healthy()
    bus.close()
