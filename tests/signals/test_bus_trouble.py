"""The SQLite log when the disk takes no more: 503 as long as it lasts, and nothing lost.

The operating system's limit on the size of a file stands in for a full disk: writes beyond it fail
in the same places.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from signals.bus.folder import Folder
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.errors import Unavailable

SETTINGS = BusSettings(segment_bytes=65_536, commit_ms=0, trim_every_s=0.02)
FULL_SOON = BusSettings(
    segment_bytes=65_536,
    max_bytes=4 * 65_536,
    hard_bytes=8 * 65_536,
    commit_ms=0,
    trim_every_s=0.02,
)
PADDING = b"x" * 30_000


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def post(bus: SqliteBus, number: int) -> None:
    body = b"%06d%b" % (number, PADDING)
    message = Message(key="chat", body=body, producer="p", accepted_us=1)
    bus.append([message]).result(10)


def taken(bus: SqliteBus, number: int) -> bool:
    try:
        post(bus, number)
    except Unavailable:
        return False
    return True


def numbers(folder: Path, *, after: int = 0) -> list[int]:
    with closing(SqliteBusReader(folder)) as reader:
        return [int(entry.body[:6]) for entry in reader.read(after=after, limit=1000)]


def eventually(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.mark.parametrize("before", [1, 2, 3], ids=["within", "just rolled over", "in the next"])
def test_a_full_disk_refuses_and_when_it_is_over_the_log_goes_on(
    tmp_path: Path, before: int
) -> None:
    folder = tmp_path / "bus"
    with closing(SqliteBus(folder, SETTINGS)) as bus:
        for number in range(before):
            post(bus, number)
        with no_file_above(20_000):
            for _ in range(3):
                with pytest.raises(Unavailable, match="the log"):
                    post(bus, 999)
            assert not bus.healthy()
        for number in range(before, 8):
            post(bus, number)
        eventually(bus.healthy)
        assert numbers(folder) == list(range(8)), "nothing lost, and nothing of what was refused"
    with closing(SqliteBus(folder, SETTINGS)) as bus:
        post(bus, 8)
    assert numbers(folder) == list(range(9))
    assert Folder(folder).firsts()[:3] == [1, 3, 5]


def test_what_was_sealed_can_be_read_on_a_full_disk(tmp_path: Path) -> None:
    """Who can't read can't let go of what fills it."""
    folder = tmp_path / "bus"
    with closing(SqliteBus(folder, SETTINGS)) as bus:
        for number in range(9):
            post(bus, number)
        eventually(lambda: len(list(folder.glob("*-shm"))) == 1)
        with no_file_above(20_000):
            assert numbers(folder) == list(range(9))
        assert len(list(folder.glob("*-shm"))) == 1, "only beside what is written to"


def test_a_log_that_cannot_roll_over_goes_on_in_a_larger_segment(tmp_path: Path) -> None:
    folder = tmp_path / "bus"
    with closing(SqliteBus(folder, SETTINGS)) as bus:
        post(bus, 0)
        eventually((folder / "next.db").exists)
        (folder / "next.db").unlink()
        (folder / "making.db").mkdir()
        post(bus, 1)
        post(bus, 2)
        assert Folder(folder).firsts() == [1]
        (folder / "making.db").rmdir()
        post(bus, 3)
        post(bus, 4)
        assert Folder(folder).firsts()[1] > 3
    assert numbers(folder) == list(range(5))


@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "after a restart"])
def test_a_log_that_is_full_of_a_segment_it_could_not_leave_takes_events_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    folder, read = tmp_path / "bus", {"features": lambda: 1000}

    def no_files_left(_: Folder, first: int) -> None:
        raise Unavailable("too many open files")

    bus = SqliteBus(folder, FULL_SOON, consumers=read)
    with monkeypatch.context() as patched:
        post(bus, 0)
        patched.setattr(Folder, "promote_next", no_files_left)
        with pytest.raises(Unavailable, match="the most is"):
            for number in range(1, 30):
                post(bus, number)
        if restarted:
            bus.close()
        assert Folder(folder).firsts() == [1]
    with closing(SqliteBus(folder, FULL_SOON, consumers=read) if restarted else bus) as again:
        eventually(lambda: taken(again, 31))
        assert numbers(folder, after=Folder(folder).firsts()[-1] - 1) == [31]


def test_a_folder_that_cannot_be_had_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "bus").write_text("not a folder")
    with pytest.raises(Unavailable, match="cannot make the log's folder"):
        SqliteBus(tmp_path / "bus")
    with pytest.raises(Unavailable, match="cannot read the log's folder"):
        SqliteBusReader(tmp_path / "bus").end()
