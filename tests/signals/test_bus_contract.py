"""What every bus must do, whichever adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from signals.bus.memory import MemoryBus
from signals.bus.port import Bus, BusReader, Message
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.errors import Unavailable


class Ends(Protocol):
    bus: Bus
    reader: BusReader


class Memory:
    def __init__(self, _: Path) -> None:
        self.bus = self.reader = MemoryBus()


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.bus = SqliteBus(folder / "bus.db")
        self.reader = SqliteBusReader(folder / "bus.db")


@pytest.fixture(params=[Memory, Sqlite])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    make: Callable[[Path], Ends] = request.param
    made = make(tmp_path)
    yield made
    made.reader.close()
    made.bus.close()


def message(number: int, accepted_us: int = 0) -> Message:
    return Message(
        key="chat", body=b"body %d" % number, producer="shop", accepted_us=accepted_us or number
    )


def append(bus: Bus, *numbers: int) -> range:
    return bus.append([message(number) for number in numbers]).result(10)


def test_offsets_start_at_one_and_rise_by_one(ends: Ends) -> None:
    assert ends.reader.end() == 0
    assert append(ends.bus, 1, 2, 3) == range(1, 4)
    assert append(ends.bus, 4) == range(4, 5)
    assert ends.reader.end() == 4


def test_entries_come_back_in_order_as_they_went_in(ends: Ends) -> None:
    append(ends.bus, 10, 11)
    append(ends.bus, 12)
    entries = ends.reader.read(after=0, limit=10)
    assert [entry.offset for entry in entries] == [1, 2, 3]
    assert [entry.body for entry in entries] == [b"body 10", b"body 11", b"body 12"]
    assert {(entry.key, entry.producer) for entry in entries} == {("chat", "shop")}
    assert [entry.accepted_us for entry in entries] == [10, 11, 12]


def test_a_read_is_bounded_and_starts_after_the_offset(ends: Ends) -> None:
    append(ends.bus, *range(10))
    assert [entry.offset for entry in ends.reader.read(after=3, limit=2)] == [4, 5]
    assert ends.reader.read(after=10, limit=2) == []


def test_a_trim_never_passes_the_consumed_offset_nor_young_entries_nor_its_limit(
    ends: Ends,
) -> None:
    append(ends.bus, *range(1, 11))
    assert ends.bus.trim(consumed=3, before_us=100, limit=100).result(10) == 3
    assert ends.bus.trim(consumed=10, before_us=6, limit=100).result(10) == 2
    assert ends.bus.trim(consumed=10, before_us=100, limit=1).result(10) == 1
    assert [entry.offset for entry in ends.reader.read(after=0, limit=100)] == [7, 8, 9, 10]


def test_offsets_go_on_after_everything_was_trimmed(ends: Ends) -> None:
    append(ends.bus, 1, 2)
    assert ends.bus.trim(consumed=2, before_us=100, limit=100).result(10) == 2
    assert ends.reader.end() == 2
    assert append(ends.bus, 3) == range(3, 4)


def test_a_closed_bus_takes_nothing(ends: Ends) -> None:
    append(ends.bus, 1)
    assert ends.bus.healthy()
    ends.bus.close()
    assert not ends.bus.healthy()
    with pytest.raises(Unavailable):
        ends.bus.append([message(2)])


def test_batches_of_many_threads_stay_whole(ends: Ends) -> None:
    def post(thread: int) -> list[range]:
        return [append(ends.bus, *range(thread * 1000, thread * 1000 + 7)) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        ranges = [found for many in pool.map(post, range(8)) for found in many]
    entries = ends.reader.read(after=0, limit=10_000)
    assert sorted(offset for found in ranges for offset in found) == list(range(1, 1121))
    bodies = [entry.body for entry in entries]
    for found in ranges:
        batch = bodies[found.start - 1 : found.stop - 1]
        first = int(batch[0].removeprefix(b"body "))
        assert batch == [b"body %d" % number for number in range(first, first + 7)]
