"""What leaves the SQLite log, what never does, and when it takes no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from signals.bus.folder import Folder
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.errors import Broken, Unavailable
from signals.events import MICROS
from tests.signals.bus_contract import append, read_all

NOW_US = 1_700_000_000 * MICROS
SETTINGS = BusSettings(
    segment_bytes=65_536,
    max_bytes=4 * 65_536,
    hard_bytes=8 * 65_536,
    retention_s=3600,
    commit_ms=0,
    trim_every_s=0.01,
)
PADDING = b"x" * 30_000
"""Two such events are a segment, and 16 or so are all that the log may hold."""


class Consumer:
    """Has what it was told behind it; None: it can't say."""

    def __init__(self, offset: int | None = 0) -> None:
        self.offset = offset
        self._asked = 0

    def until_asked_again(self) -> None:
        """Until the log has looked twice what may go, once of it with this offset."""
        before = self._asked
        eventually(lambda: self._asked >= before + 3)

    def __call__(self) -> int:
        self._asked += 1
        if self.offset is None:
            raise Unavailable("not there yet")
        return self.offset


@contextmanager
def opened(folder: Path, **consumers: Consumer) -> Iterator[tuple[SqliteBus, SqliteBusReader]]:
    bus = SqliteBus(folder, SETTINGS, consumers=consumers, clock_us=lambda: NOW_US)
    reader = SqliteBusReader(folder, consumers=consumers)
    with closing(bus), closing(reader):
        yield bus, reader


def post(bus: SqliteBus, number: int, *, accepted_us: int = NOW_US) -> None:
    body = b"%06d%b" % (number, PADDING)
    message = Message(key="chat", body=body, producer="p", accepted_us=accepted_us)
    bus.append([message]).result(10)


def numbers(reader: SqliteBusReader, *, after: int) -> list[int]:
    return [int(entry.body[:6]) for entry in read_all(reader, after=after)]


def eventually(true: Callable[[], bool], *, within_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def firsts(folder: Path) -> list[int]:
    return Folder(folder / "bus").firsts()


def filled(bus: SqliteBus, start: int = 0) -> tuple[int, str]:
    """Post until the log takes no more: how many were taken, and what was said."""
    for number in range(start, start + 1000):
        try:
            post(bus, number)
        except Unavailable as unavailable:
            return number - start, unavailable.detail
    raise AssertionError("it never got full")


def test_at_the_hard_limit_posts_are_refused_with_the_slowest_consumer_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    quick, stuck = Consumer(6), Consumer(3)
    with opened(tmp_path / "bus", quick=quick, stuck=stuck) as (bus, reader):
        append(bus, 0)
        taken, said = filled(bus)
        eventually(lambda: "offset 3" in filled(bus)[1])
        assert "the most is 524288: the slowest consumer, 'stuck', is at offset 3 of" in said
        assert 12 <= taken <= 20
        assert not bus.healthy()
        first = firsts(tmp_path)[0]
        assert first <= 4, "what the stuck one has not read is there"
        assert numbers(reader, after=3) == list(range(2, taken))
        stuck.offset = quick.offset = reader.end()
        eventually(bus.healthy)
        post(bus, taken)
        assert numbers(reader, after=stuck.offset) == [taken]


def test_above_the_size_the_oldest_segments_go_that_all_have_read(tmp_path: Path) -> None:
    fast, slow = Consumer(10**6), Consumer(0)
    with opened(tmp_path / "bus", fast=fast, slow=slow) as (bus, reader):
        for number in range(14):
            post(bus, number)
        slow.until_asked_again()
        assert firsts(tmp_path)[0] == 1, "one has read nothing"
        slow.offset = 7
        eventually(lambda: firsts(tmp_path)[0] == 7)
        assert numbers(reader, after=7) == list(range(7, 14))
        slow.offset = 14
        eventually(lambda: len(firsts(tmp_path)) == 5)
        slow.until_asked_again()
        assert len(firsts(tmp_path)) == 5, "four full ones are what is kept; no more goes"


def test_what_may_go_goes_although_no_next_segment_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk it is the only thing that makes room."""

    def full_disk(_: Folder) -> None:
        raise Unavailable("no space left on the device")

    features = Consumer(0)
    with opened(tmp_path / "bus", features=features) as (bus, reader):
        monkeypatch.setattr(Folder, "make_next", full_disk)
        taken, _ = filled(bus)
        features.offset = reader.end()
        eventually(lambda: firsts(tmp_path)[0] > 1)
        eventually(bus.healthy)
        post(bus, taken)
        assert numbers(reader, after=features.offset) == [taken]


def test_what_is_older_than_the_retention_goes_when_it_is_read(tmp_path: Path) -> None:
    reads = Consumer(0)
    old_us = NOW_US - SETTINGS.retention_s * MICROS - 1
    with opened(tmp_path / "bus", reads=reads) as (bus, reader):
        for number in range(5):
            post(bus, number, accepted_us=old_us + number // 3)
        reads.until_asked_again()
        assert firsts(tmp_path) == [1, 3, 5]
        reads.offset = 5
        eventually(lambda: firsts(tmp_path) == [3, 5])
        reads.until_asked_again()
        assert firsts(tmp_path) == [3, 5], "its last event is just young enough"
        assert numbers(reader, after=2) == [2, 3, 4]


@pytest.mark.parametrize("nobody_knows", [{}, {"a": Consumer(10**6), "b": Consumer(None)}])
def test_nothing_goes_while_a_consumer_cannot_say_or_there_is_none(
    tmp_path: Path, nobody_knows: dict[str, Consumer]
) -> None:
    with opened(tmp_path / "bus", **nobody_knows) as (bus, reader):
        taken, said = filled(bus)
        if nobody_knows:
            assert "the offset of the consumer 'b' cannot be read" in said
        else:
            assert "no consumer is named" in said
        for consumer in nobody_knows.values():
            consumer.until_asked_again()
        assert numbers(reader, after=0) == list(range(taken))
        with pytest.raises(Unavailable, match="the log holds"):
            post(bus, taken)


def test_a_full_log_is_full_after_a_restart_too_and_says_so(tmp_path: Path) -> None:
    stuck = Consumer(0)
    with opened(tmp_path / "bus", stuck=stuck) as (bus, _):
        taken, _said = filled(bus)
    with opened(tmp_path / "bus", stuck=stuck) as (bus, reader):
        assert not bus.healthy()
        with pytest.raises(Unavailable, match="the log holds"):
            post(bus, taken)
        assert numbers(reader, after=0) == list(range(taken))


@pytest.mark.parametrize("seed", [11])
def test_nothing_unread_goes_whatever_the_consumers_do(tmp_path: Path, seed: int) -> None:
    rng, consumers = Random(seed), {name: Consumer(0) for name in ("a", "b", "c")}
    posted, seen = 0, {name: list[int]() for name in consumers}
    with opened(tmp_path / "bus", **consumers) as (bus, _):
        readers = {name: SqliteBusReader(tmp_path / "bus") for name in consumers}
        for _ in range(300):
            if rng.random() < 0.5:
                try:
                    post(bus, posted)
                    posted += 1
                except Unavailable:
                    time.sleep(0.01)
            name = rng.choice("abc")
            at = consumers[name].offset or 0
            entries = readers[name].read(after=at, limit=rng.randrange(1, 4))
            seen[name] += [int(entry.body[:6]) for entry in entries]
            if entries:
                consumers[name].offset = entries[-1].offset
        assert posted > 100
        for name, reader in readers.items():
            seen[name] += numbers(reader, after=consumers[name].offset or 0)
            assert seen[name] == list(range(posted))
            reader.close()
        assert firsts(tmp_path)[0] > 20, "and yet the oldest went"
        with closing(SqliteBusReader(tmp_path / "bus")) as late, pytest.raises(Broken):
            late.read(after=0, limit=1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_keeper_that_dies_of_a_mistake_is_not_healthy_and_loses_nothing(tmp_path: Path) -> None:
    def mistaken() -> int:
        raise ZeroDivisionError

    with closing(SqliteBus(tmp_path / "bus", SETTINGS, consumers={"a": mistaken})) as bus:
        eventually(lambda: not bus.healthy())
        for number in range(5):
            post(bus, number)
    with opened(tmp_path / "bus") as (bus, reader):
        assert bus.healthy()
        assert numbers(reader, after=0) == list(range(5))


def test_the_status_tells_how_far_everybody_is(tmp_path: Path) -> None:
    with opened(tmp_path / "bus", a=Consumer(2), b=Consumer(None)) as (bus, reader):
        assert reader.status().oldest_us is None
        for number in range(5):
            post(bus, number, accepted_us=NOW_US + number)
        status = reader.status()
        assert (status.first, status.end, status.segments) == (1, 5, 3)
        assert status.consumers == {"a": 2, "b": None}
        assert (status.lag("a"), status.lag("b")) == (3, None)
        assert status.oldest_us == NOW_US
        assert status.bytes is not None
        assert status.bytes > 5 * len(PADDING)


@pytest.mark.parametrize(
    "sizes", [{"max_bytes": 200_000_000}, {"max_bytes": 2**34, "hard_bytes": 2**34 - 1}]
)
def test_sizes_under_which_nothing_could_go_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="two segments"):
        BusSettings.model_validate(sizes)
