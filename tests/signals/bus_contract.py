"""What every bus must do, whichever adapter: one suite, run by a small class for each adapter.

::

    class TestMemory(BusContract):
        @pytest.fixture
        def factory(self) -> Iterator[Factory]:
            yield MemoryFactory()

Nothing here takes offsets for contiguous or for starting at 1, an append for atomic, or the order
of two keys for kept: Kafka promises none of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pytest

from signals.bus.port import Bus, BusReader, Entry, Message, partition_of
from signals.errors import Unavailable

WITHIN_S = 20.0
KEYS = ("chat", "code", "search")


class Factory(Protocol):
    """Both ends of one bus. Whatever it opened, it closes when the test is over."""

    partitions: int
    durable: bool
    """Whether what was appended outlives the writing end."""

    def open(self) -> Bus:
        """The writing end; opened once more after a ``close``, it goes on where that stopped."""

    def reader(self, partition: int = 0) -> BusReader:
        """A new reading end."""


def message(
    number: int, *, key: str = "chat", producer: str = "shop", accepted_us: int | None = None
) -> Message:
    return Message(
        key=key,
        body=b'{"number":%d}' % number,
        producer=producer,
        accepted_us=1_000_000 + number if accepted_us is None else accepted_us,
    )


def append(bus: Bus, *numbers: int, key: str = "chat", accepted_us: int | None = None) -> None:
    """One append, until it is durable."""
    batch = [message(number, key=key, accepted_us=accepted_us) for number in numbers]
    assert bus.append(batch).result(WITHIN_S) is None


def numbers(entries: Iterable[Entry]) -> list[int]:
    return [int(entry.body[10:-1]) for entry in entries]


def read_all(reader: BusReader, *, after: int = 0, limit: int = 10_000) -> list[Entry]:
    """Up to the end that there is when it is called."""
    end, found = reader.end(), list[Entry]()
    deadline_s = time.monotonic() + WITHIN_S
    while (found[-1].offset if found else after) < end:
        assert time.monotonic() < deadline_s, f"no end: {len(found)} entries"
        entries = reader.read(after=found[-1].offset if found else after, limit=limit)
        assert len(entries) <= limit
        found.extend(entries)
    return found


def fields(entry: Entry | Message) -> tuple[str, bytes, str, int]:
    return entry.key, entry.body, entry.producer, entry.accepted_us


class BusContract:
    """Subclass it and give it a ``factory``."""

    @pytest.fixture
    def factory(self) -> Factory:
        raise NotImplementedError("each adapter has its own")

    def home(self, factory: Factory, key: str = "chat") -> BusReader:
        """A reader of the partition that the key is in."""
        return factory.reader(partition_of(key, factory.partitions))

    def test_an_empty_bus_has_nothing_to_read(self, factory: Factory) -> None:
        factory.open()
        for partition in range(factory.partitions):
            reader = factory.reader(partition)
            assert list(reader.read(after=reader.end(), limit=10)) == []

    def test_entries_come_back_in_order_as_they_went_in(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        sent = [message(number) for number in range(20)]
        bus.append(sent[:1]).result(WITHIN_S)
        bus.append(sent[1:]).result(WITHIN_S)
        assert [fields(entry) for entry in read_all(reader)] == [fields(each) for each in sent]

    def test_offsets_are_above_zero_and_rise(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        for number in range(5):
            append(bus, number, number, number)
        offsets = [entry.offset for entry in read_all(reader)]
        assert offsets[0] > 0
        assert offsets == sorted(set(offsets))
        assert len(offsets) == 15
        assert reader.end() >= offsets[-1]

    def test_a_read_gives_exactly_what_follows_and_not_more_than_asked(
        self, factory: Factory
    ) -> None:
        bus, reader = factory.open(), self.home(factory)
        append(bus, *range(40))
        append(bus, *range(40, 43), accepted_us=7)
        entries = read_all(reader)
        for at, entry in enumerate(entries):
            following = read_all(reader, after=entry.offset)
            assert following == entries[at + 1 :]
            few = list(reader.read(after=entry.offset, limit=3))
            assert few == following[: len(few)]
            assert len(few) <= 3
        for limit in (1, 2, 7, 39, 40, 41):
            assert read_all(reader, limit=limit) == entries
        assert list(reader.read(after=reader.end(), limit=5)) == []

    def test_reading_again_gives_the_same(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        append(bus, *range(10))
        assert read_all(reader) == read_all(reader) == read_all(self.home(factory))

    def test_a_key_keeps_its_order_whatever_comes_between(self, factory: Factory) -> None:
        bus = factory.open()
        sent = [
            message(
                number,
                key=KEYS[number % 3],
                producer=f"p{number % 2}",
                accepted_us=1_000 + number // 5 % 2,
            )
            for number in range(90)
        ]
        bus.append(sent[:50]).result(WITHIN_S)
        bus.append(sent[50:]).result(WITHIN_S)
        for key in KEYS:
            entries = [each for each in read_all(self.home(factory, key)) if each.key == key]
            mine = [each for each in sent if each.key == key]
            assert [fields(entry) for entry in entries] == [fields(each) for each in mine]

    def test_a_key_is_in_its_own_partition_and_in_no_other(self, factory: Factory) -> None:
        bus = factory.open()
        for key in KEYS:
            append(bus, 1, 2, key=key)
        for partition in range(factory.partitions):
            here = {key for key in KEYS if partition_of(key, factory.partitions) == partition}
            entries = read_all(factory.reader(partition))
            assert {entry.key for entry in entries} == here
            assert len(entries) == 2 * len(here)

    def test_bodies_of_every_size_come_back_whole(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        sizes = [1, 2, 4_000, 300_000, 5, 300_000, 300_000, 300_000, 300_000, 17]
        sent = [
            Message(key="chat", body=bytes([97 + at]) * size, producer="é", accepted_us=9)
            for at, size in enumerate(sizes)
        ]
        bus.append(sent).result(WITHIN_S)
        assert [entry.body for entry in read_all(reader)] == [each.body for each in sent]
        assert [entry.body for entry in read_all(reader, limit=1)] == [each.body for each in sent]

    def test_appends_of_many_threads_are_all_there_once_each_in_its_order(
        self, factory: Factory
    ) -> None:
        bus, reader = factory.open(), self.home(factory)

        def post(thread: int) -> None:
            for at in range(0, 140, 7):
                append(bus, *range(thread * 1000 + at, thread * 1000 + at + 7))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(post, range(8)))
        found = numbers(read_all(reader))
        for thread in range(8):
            mine = [number for number in found if number // 1000 == thread]
            assert mine == list(range(thread * 1000, thread * 1000 + 140))
        assert len(found) == 8 * 140

    def test_a_batch_of_nothing_is_fine(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        assert bus.append([]).result(WITHIN_S) is None
        append(bus, 1)
        assert numbers(read_all(reader)) == [1]

    def test_a_caller_that_gives_up_takes_nothing_with_it(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        given_up = bus.append([message(1)])
        given_up.cancel()
        append(bus, 2)
        assert numbers(read_all(reader)) == [1, 2]

    def test_closing_makes_durable_what_was_taken_and_then_takes_nothing(
        self, factory: Factory
    ) -> None:
        bus, reader = factory.open(), self.home(factory)
        assert bus.healthy()
        futures = [bus.append([message(number)]) for number in range(50)]
        bus.close()
        assert [future.result(0) for future in futures] == [None] * 50
        assert not bus.healthy()
        with pytest.raises(Unavailable):
            bus.append([message(50)])
        bus.close()
        assert numbers(read_all(reader)) == list(range(50))

    def test_a_bus_opened_again_goes_on_where_it_stopped(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        append(bus, 1, 2, 3)
        before = read_all(reader)
        bus.close()
        append(factory.open(), 4)
        after = read_all(reader) if factory.durable else read_all(self.home(factory))
        if factory.durable:
            assert after[:3] == before
            assert after[3].offset > before[2].offset
        assert numbers(after[-1:]) == [4]

    def test_a_reader_that_let_go_can_read_again(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        append(bus, 1, 2)
        before = read_all(reader)
        reader.close()
        again = self.home(factory)
        append(bus, 3)
        assert numbers(again.read(after=before[-1].offset, limit=10)) == [3]

    def test_the_status_says_where_it_starts_and_ends(self, factory: Factory) -> None:
        bus, reader = factory.open(), self.home(factory)
        append(bus, 1, 2, 3)
        entries, status = read_all(reader), reader.status()
        assert status.first <= entries[0].offset
        assert status.end == reader.end() >= entries[-1].offset
        assert numbers(read_all(reader, after=status.first - 1)) == [1, 2, 3]
