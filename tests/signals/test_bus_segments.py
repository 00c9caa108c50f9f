"""The SQLite log as a folder: rolling over, what earlier releases left, readers in between."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from signals.bus import log_file
from signals.bus.folder import Folder
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.errors import Broken, Unavailable
from signals.events import MICROS
from signals.file_lock import FileLock
from tests.signals.bus_contract import append, fields, message, numbers, read_all
from tests.signals.processes import ROOT

SMALL = BusSettings(segment_bytes=65_536, commit_ms=0)
BIG = b"x" * 30_000
SINGLE = """
CREATE TABLE entries (offset INTEGER PRIMARY KEY, key TEXT NOT NULL, producer TEXT NOT NULL,
 accepted_us INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE position (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), trimmed_to INTEGER);
INSERT INTO position VALUES (1, {trimmed});
PRAGMA user_version = 1;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bus"


@contextmanager
def opened(folder: Path, settings: BusSettings = SMALL) -> Iterator[SqliteBus]:
    with closing(SqliteBus(folder, settings)) as bus:
        yield bus


def big(number: int) -> Message:
    return Message(key="chat", body=b"%03d%b" % (number, BIG), producer="p", accepted_us=number + 1)


def fill(bus: SqliteBus, *numbers: int) -> None:
    """Two of these are a segment."""
    for number in numbers:
        bus.append([big(number)]).result(10)


def firsts(folder: Path) -> list[int]:
    return Folder(folder).firsts()


def big_numbers(reader: SqliteBusReader, *, after: int = 0, limit: int = 1000) -> list[int]:
    return [int(each.body[:3]) for each in reader.read(after=after, limit=limit)]


def test_the_log_goes_on_in_a_new_segment_named_by_its_first_offset(folder: Path) -> None:
    with opened(folder) as bus:
        fill(bus, *range(10))
        assert len(firsts(folder)) > 2
        for first in firsts(folder):
            with closing(log_file.open_for_reading(folder / f"{first:020d}.db")) as segment:
                found = segment.execute("SELECT IFNULL(MIN(first), ?) FROM frames", (first,))
                assert found.fetchone()[0] == first
    with closing(SqliteBusReader(folder)) as reader:
        assert big_numbers(reader) == list(range(10))
        for after in range(11):
            assert big_numbers(reader, after=after, limit=4) == list(range(after, 10))[:4]


def test_a_roll_over_holds_nobody_up_for_long(folder: Path) -> None:
    took_ms = []
    with opened(folder) as bus:
        for number in range(90):
            began_s = time.monotonic()
            fill(bus, number)
            took_ms.append((time.monotonic() - began_s) * 1000)
            time.sleep(0.002)
        assert len(firsts(folder)) >= 25
    assert sorted(took_ms)[len(took_ms) * 3 // 4] < 40, "a third of them rolled over"


def test_a_restart_goes_on_in_the_newest_segment_empty_or_not(folder: Path) -> None:
    for number in range(6):
        with opened(folder) as bus:
            fill(bus, number)
    assert firsts(folder) == [1, 3, 5, 7], "no restart makes a segment"
    with closing(SqliteBusReader(folder)) as reader:
        assert big_numbers(reader) == list(range(6))


def test_an_empty_segment_left_by_a_kill_is_taken_up(folder: Path) -> None:
    with opened(folder) as bus:
        append(bus, 1, 2)
    Folder(folder).promote_next(3)
    with closing(SqliteBusReader(folder)) as reader:
        assert reader.end() == 2
        assert numbers(read_all(reader)) == [1, 2]
        with opened(folder) as bus:
            append(bus, 3)
        assert firsts(folder) == [1, 3]
        assert numbers(read_all(reader)) == [1, 2, 3]


def test_what_a_killed_writer_was_making_is_swept_away(folder: Path) -> None:
    with opened(folder) as bus:
        append(bus, 1)
    for name in ("next.db", "making.db", "00000000000000000000.db-wal"):
        (folder / name).write_bytes(b"half a file")
    with opened(folder, BusSettings(segment_bytes=65_536)) as bus:
        fill(bus, *range(4))
    assert not (folder / "00000000000000000000.db-wal").exists()
    with closing(SqliteBusReader(folder)) as reader:
        assert len(read_all(reader)) == 5


def test_a_segment_takes_events_for_a_day_at_most(folder: Path) -> None:
    with opened(folder, BusSettings(segment_s=60)) as bus:
        append(bus, 1, accepted_us=0)
        append(bus, 2, accepted_us=60 * MICROS)
        append(bus, 3, accepted_us=60 * MICROS + 1)
        append(bus, 4, accepted_us=61 * MICROS)
    assert firsts(folder) == [1, 4]


def single_file(path: Path, offsets: range, *, trimmed: int = 0) -> list[Message]:
    """What an earlier release left, not yet moved out of its write-ahead log."""
    sent = [message(offset, producer="é\"'") for offset in offsets]
    keeper = sqlite3.connect(path)
    keeper.execute("PRAGMA journal_mode = WAL")
    keeper.executescript(SINGLE.format(trimmed=trimmed))
    rows = [
        (at, each.key, each.producer, each.accepted_us, each.body)
        for at, each in zip(offsets, sent, strict=True)
    ]
    keeper.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
    keeper.commit()
    copies = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")}
    keeper.close()
    for suffix, content in copies.items():
        path.with_name(path.name + suffix).write_bytes(content)
    return sent


def test_the_single_file_of_an_earlier_release_becomes_the_first_segment(folder: Path) -> None:
    sent = single_file(folder.with_name("bus.db"), range(5, 9), trimmed=4)
    with opened(folder) as bus:
        append(bus, 9, 10)
        append(bus, 11)
    assert firsts(folder) == [5, 9]
    assert sorted(path.name for path in folder.parent.glob("bus.db*")) == ["bus.db.lock"]
    with closing(SqliteBusReader(folder)) as reader:
        entries = read_all(reader, after=4)
        assert [fields(entry) for entry in entries[:4]] == [fields(each) for each in sent]
        assert [entry.offset for entry in entries] == list(range(5, 12))
        assert numbers(reader.read(after=6, limit=3)) == [7, 8, 9]
        assert reader.status().oldest_us == sent[0].accepted_us
    with opened(folder) as bus:
        append(bus, 12)
    assert firsts(folder) == [5, 9], "taken over once"


def test_offsets_go_on_after_a_single_file_that_was_trimmed_to_nothing(folder: Path) -> None:
    single_file(folder.with_name("bus.db"), range(0), trimmed=41)
    with opened(folder) as bus:
        append(bus, 1)
    assert firsts(folder) == [42]
    assert not folder.with_name("bus.db").exists()


def test_a_take_over_that_was_cut_short_is_finished(folder: Path) -> None:
    single = folder.with_name("bus.db")
    single_file(single, range(1, 4))
    with opened(folder) as bus:
        append(bus, 4)
    for first in firsts(folder)[1:]:
        Folder(folder).drop(first)
    single.with_name("bus.db-wal").touch()
    with opened(folder) as bus:
        append(bus, 4)
    assert not single.with_name("bus.db-wal").exists()
    with closing(SqliteBusReader(folder)) as reader:
        assert numbers(read_all(reader)) == [1, 2, 3, 4]


def test_a_single_file_beside_a_folder_with_events_is_refused(folder: Path) -> None:
    with opened(folder) as bus:
        append(bus, 1)
    single_file(folder.with_name("bus.db"), range(1, 3))
    with pytest.raises(Broken, match=r"both bus\.db and the folder bus hold events"):
        SqliteBus(folder)


def test_a_single_file_that_an_earlier_release_still_writes_is_left_alone(folder: Path) -> None:
    single = folder.with_name("bus.db")
    single_file(single, range(1, 3))
    with FileLock(single), pytest.raises(Unavailable, match="another process holds"):
        SqliteBus(folder)
    assert single.exists()
    SqliteBus(folder).close()


def test_a_reader_goes_on_in_a_segment_that_is_dropped_under_it(folder: Path) -> None:
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        fill(bus, *range(9))
        second = firsts(folder)[1]
        assert big_numbers(reader, limit=1) == [0]
        Folder(folder).drop(firsts(folder)[0])
        assert big_numbers(reader, after=1, limit=1) == [1], "it has it open"
        assert big_numbers(reader, after=1) == list(range(1, 9)), "and no gap follows"
        assert big_numbers(reader, after=second - 1) == list(range(second - 1, 9))


def test_a_read_of_long_events_ends_before_memory_does(folder: Path) -> None:
    with closing(SqliteBus(folder)) as bus, closing(SqliteBusReader(folder)) as reader:
        for _ in range(40):
            long = Message(key="chat", body=b"x" * 900_000, producer="p", accepted_us=1)
            bus.append([long] * 2).result(10)
        first = reader.read(after=0, limit=1000)
        size = sum(len(entry.body) for entry in first)
        assert log_file.READ_BYTES - 2**21 < size < log_file.READ_BYTES + 2**21
        assert [entry.offset for entry in read_all(reader)] == list(range(1, 81))


def test_a_reader_that_asks_for_what_was_dropped_is_told(folder: Path) -> None:
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        fill(bus, *range(9))
        gone, kept = firsts(folder)[:2]
        Folder(folder).drop(gone)
        for after in (0, kept - 2):
            with pytest.raises(Broken, match=f"starts at {kept}: what came after {after} was"):
                reader.read(after=after, limit=5)
        assert big_numbers(reader, after=kept - 1) == list(range(kept - 1, 9))
        assert reader.status().first == kept


def test_a_segment_missing_in_between_is_a_gap_and_not_skipped(folder: Path) -> None:
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        fill(bus, *range(9))
        missing, following = firsts(folder)[1:3]
        Folder(folder).drop(missing)
        assert big_numbers(reader, limit=missing - 1) == list(range(missing - 1))
        with pytest.raises(Broken, match=f"nothing between {missing - 1} and {following}"):
            reader.read(after=missing - 1, limit=5)


def test_a_frame_missing_in_a_segment_is_a_gap_and_not_skipped(folder: Path) -> None:
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        for number in range(1, 4):
            append(bus, number)
        with closing(sqlite3.connect(folder / f"{1:020d}.db", isolation_level=None)) as other:
            other.execute("DELETE FROM frames WHERE first = 2")
        assert numbers(reader.read(after=0, limit=1)) == [1]
        with pytest.raises(Broken, match="nothing between 1 and 3"):
            reader.read(after=1, limit=5)


def test_a_reader_in_another_process_sees_a_commit_at_once(folder: Path) -> None:
    reading = (
        "import sys; from pathlib import Path; from signals.bus.sqlite import SqliteBusReader\n"
        "reader = SqliteBusReader(Path(sys.argv[1]))\n"
        "for line in sys.stdin:\n"
        "    print(*[e.offset for e in reader.read(after=int(line), limit=9)], flush=True)\n"
    )
    with (
        opened(folder) as bus,
        subprocess.Popen(
            [sys.executable, "-c", reading, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        for offset in range(1, 21):
            fill(bus, offset)
            print(offset - 1, file=other.stdin, flush=True)
            assert other.stdout.readline().split() == [str(offset)]
        other.stdin.close()
    assert len(firsts(folder)) > 5


def test_a_body_with_a_newline_of_its_own_comes_back_whole(folder: Path) -> None:
    bodies = [b"a", b"b\nc", b"\n", b"d", b"e", b""]
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        bus.append(
            [Message(key="k", body=body, producer="p", accepted_us=1) for body in bodies]
        ).result(10)
        assert [entry.body for entry in reader.read(after=0, limit=9)] == bodies


def test_a_frame_that_does_not_hold_what_it_says_stops_the_reader(folder: Path) -> None:
    with opened(folder) as bus, closing(SqliteBusReader(folder)) as reader:
        append(bus, 1, 2, 3)
        with closing(sqlite3.connect(folder / f"{1:020d}.db", isolation_level=None)) as other:
            other.execute("UPDATE frames SET bodies = x'616263'")
        with pytest.raises(Broken, match="frame at 1 does not hold 3 events"):
            reader.read(after=0, limit=5)


def test_the_folder_is_for_its_owner_only(folder: Path) -> None:
    SqliteBus(folder).close()
    assert os.stat(folder).st_mode & 0o777 == 0o700
