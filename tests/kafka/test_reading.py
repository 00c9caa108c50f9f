"""A reader is not fooled by a log that jumps, and waits no longer than it must."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from benchmarks.broker import Broker
from controller.cli import tailing
from signals.bus.kafka import consuming
from signals.bus.kafka.consuming import POLL_RECORDS
from signals.bus.kafka.membership import KafkaAssignment
from signals.bus.kafka.producing import KafkaBus
from signals.bus.kafka.reading import FULL_BYTES, KafkaReader, LoneReader, open_readers
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.definitions import StaticDefinitions
from signals.errors import Broken, Unavailable
from signals.features.change import FeatureRules
from signals.features.follower import Follower
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings
from tests.kafka.buses import PARTITIONS, freeze, key_of, message, settings_for, thaw, wait_until
from tests.signals.making import INTENTS, METRICS

RECORDS = 6


@pytest.fixture
def bus(settings: BusSettings) -> Iterator[KafkaBus]:
    """With records 0 to 5 in partition 0, of one event each."""
    with closing(KafkaBus(settings)) as opened:
        for number in range(RECORDS):
            opened.append([message(number, key=key_of(0))]).result(20)
        yield opened


@pytest.fixture
def reader(bus: KafkaBus, settings: BusSettings) -> Iterator[LoneReader]:
    with closing(open_readers(settings.kafka, [0])[0]) as opened:
        yield opened


def put_consumer_at(reader: KafkaReader, record: int) -> None:
    """Behind the reader's back, as a client does that is out of range."""
    reader._consumption.ask(lambda consumer: consumer.seek(reader.partition, record))


def numbers(reader: KafkaReader, *, after: int) -> list[int]:
    return [int(entry.body) for entry in reader.read(after=after, limit=100)]


def test_a_hole_that_is_inside_the_log_is_no_loss(reader: LoneReader) -> None:
    """Compaction and the marks of transactions leave holes between Kafka's offsets."""
    wait_until(lambda: numbers(reader, after=0) == [0, 1, 2, 3, 4, 5])
    put_consumer_at(reader, 6)
    reader._next = 4
    reader._records.clear()
    put_consumer_at(reader, 5)
    wait_until(lambda: numbers(reader, after=4000) == [5])


def _has_the_last(reader: KafkaReader) -> bool:
    return RECORDS in numbers(reader, after=0)


def test_what_was_fetched_but_could_not_be_taken_is_read_all_the_same(
    bus: KafkaBus, settings: BusSettings
) -> None:
    """The brokers may fail to say where the log begins, which is asked between two records."""
    bus.append([message(number, key=key_of(1)) for number in range(RECORDS)]).result(20)
    opened = open_readers(settings.kafka, [0, 1])
    failing, beside = opened[0], opened[1]
    failures: list[int] = []

    def fail_once(records: Sequence[Any], consumer: Any) -> None:
        if not failures:
            failures.append(len(records))
            raise KafkaTimeoutError("where the log begins")
        KafkaReader.take(failing, records, consumer)

    failing.take = fail_once  # type: ignore[method-assign]
    with closing(failing):
        with suppress(Unavailable):
            beside.read(after=0, limit=1)
            failing.read(after=0, limit=1)
        wait_until(lambda: bool(failures))
        bus.append([message(RECORDS, key=key_of(0)), message(RECORDS, key=key_of(1))]).result(20)
        expected = list(range(RECORDS + 1))
        for reader in (failing, beside):
            wait_until(partial(_has_the_last, reader))
            assert numbers(reader, after=0) == expected


def test_the_last_events_are_found_though_offsets_are_far_apart(
    reader: LoneReader, settings: BusSettings
) -> None:
    assert numbers(reader, after=tailing.last(reader, 2)) == [4, 5]
    assert numbers(reader, after=tailing.last(reader, 100)) == [0, 1, 2, 3, 4, 5]
    assert tailing.last(reader, 0) == reader.end()


def test_the_first_read_after_a_seek_waits_for_what_is_there(settings: BusSettings) -> None:
    with closing(KafkaBus(settings)) as bus:
        bus.append([message(7, key=key_of(0))]).result(20)
        for _ in range(5):
            with closing(open_readers(settings.kafka, [0])[0]) as fresh:
                assert numbers(fresh, after=0) == [7]


def test_a_log_that_begins_after_what_was_read_is_broken(
    bus: KafkaBus, settings: BusSettings
) -> None:
    """The broker of the tests drops nothing, so the reader is told that the log begins later."""

    class Trimmed(KafkaReader):
        def _log_start(self, consumer: Any) -> int:
            return 4

    with closing(open_readers(settings.kafka, [0])[0]) as opened:
        reader = Trimmed(opened._consumption, 0)
        reader.read(after=2000, limit=1)
        reader._records.clear()
        reader._from = reader._next = 2
        put_consumer_at(reader, 4)
        with pytest.raises(Broken, match="begins at 4, and was read only up to 2"):
            wait_until(lambda: numbers(reader, after=2000) == [-1])
        with pytest.raises(Broken):
            reader.read(after=2000, limit=1)


def test_a_log_that_starts_anew_below_what_was_read_is_broken(reader: LoneReader) -> None:
    wait_until(lambda: numbers(reader, after=5000) == [5])
    put_consumer_at(reader, 0)
    with pytest.raises(Broken, match="was read up to 6, which it does not have now"):
        wait_until(lambda: numbers(reader, after=6000) == [-1])


def test_a_topic_that_was_deleted_and_made_again_stops_the_stage(
    bus: KafkaBus, broker: Broker, settings: BusSettings, tmp_path: Path
) -> None:
    rules = FeatureRules(
        intents=INTENTS, definitions=StaticDefinitions(METRICS), settings=FeatureSettings()
    )
    with (
        closing(open_readers(settings.kafka, [0])[0]) as reader,
        closing(SqliteFeatures(tmp_path / "features.db")) as read,
    ):
        follower = Follower(reader, tmp_path / "features.db", rules)
        wait_until(lambda: follower.step() >= 0 and read.bus_offset() == RECORDS * 1000)
        follower.end()
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
    admin.delete_topics([settings.kafka.topic])
    admin.close()
    with (
        closing(KafkaBus(settings)),
        closing(open_readers(settings.kafka, [0])[0]) as anew,
        pytest.raises(Broken, match="the bus ends at 0, but 6000 was read before"),
    ):
        Follower(anew, tmp_path / "features.db", rules).step()


def test_what_waits_for_a_reader_is_bounded_however_well_it_was_compressed(
    bus: KafkaBus, settings: BusSettings
) -> None:
    body, key = b"x" * 200_000, key_of(1)
    for _ in range(10):
        large = [Message(key=key, body=body, producer="shop", accepted_us=1)] * 10
        bus.append(large).result(20)
    bound = FULL_BYTES + POLL_RECORDS * settings.kafka.record_bytes
    with closing(open_readers(settings.kafka, [1])[1]) as reader:
        reader.read(after=0, limit=1)
        wait_until(lambda: reader.full)
        after = 0
        while after < reader.end():
            assert reader._bytes <= bound < 20_000_000
            for entry in reader.read(after=after, limit=7):
                assert entry.body == body
                after = entry.offset


def test_a_reader_says_that_the_broker_does_not_answer(tmp_path: Path) -> None:
    with Broker() as broker:
        settings = settings_for(broker.port, request_timeout_ms=1000)
        with closing(KafkaBus(settings)), closing(open_readers(settings.kafka, [0])[0]) as reader:
            freeze(broker.pid)
            with pytest.raises(Unavailable, match="Kafka"):
                reader.end()
            thaw(broker.pid)
            wait_until(lambda: _end(reader) == 0)


def test_a_read_with_news_on_their_way_does_not_wait_long(
    bus: KafkaBus, settings: BusSettings
) -> None:
    with closing(KafkaAssignment(settings)) as assignment:
        wait_until(lambda: len(assignment.partitions()) == PARTITIONS)
        reader, after, took_s = assignment.partitions()[0], RECORDS * 1000, []
        for number in range(20):
            reader.read(after=after, limit=10)
            bus.append([message(number, key=key_of(0))]).result(20)
            began_s = time.monotonic()
            while not (found := reader.read(after=after, limit=10)):
                assert time.monotonic() - began_s < 5
            took_s.append(time.monotonic() - began_s)
            after = found[-1].offset
        assert sorted(took_s)[10] < 0.2


def test_a_partition_that_went_and_came_unnoticed_is_read_on_where_it_was(
    bus: KafkaBus, settings: BusSettings
) -> None:
    """The client then reads from anywhere, which must not be taken for a log that starts anew."""
    with closing(KafkaAssignment(settings)) as assignment:
        wait_until(lambda: len(assignment.partitions()) == PARTITIONS)
        reader = assignment.partitions()[0]
        assert isinstance(reader, KafkaReader)
        wait_until(lambda: numbers(reader, after=0) == [0, 1, 2, 3, 4, 5])
        moves = reader._consumption._moves

        def join_again(consumer: Any) -> None:
            consumer.unsubscribe()
            consumer.subscribe([settings.kafka.topic], listener=moves)

        reader._consumption.ask(join_again)
        wait_until(lambda: reader._next < 0)
        wait_until(lambda: 0 in reader._consumption.assigned())
        bus.append([message(6, key=key_of(0))]).result(20)
        wait_until(lambda: numbers(reader, after=6000) == [6])


def test_a_partition_that_the_client_keeps_and_does_not_fetch_is_had_by_joining_anew(
    bus: KafkaBus, settings: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "QUIET_S", 0.2)
    with closing(KafkaAssignment(settings)) as assignment:
        wait_until(lambda: len(assignment.partitions()) == PARTITIONS)
        reader = assignment.partitions()[0]
        assert isinstance(reader, KafkaReader)
        wait_until(lambda: numbers(reader, after=0) == [0, 1, 2, 3, 4, 5])
        reader._consumption.ask(
            lambda consumer: consumer._subscription.mark_pending_revocation([reader.partition])
        )
        for number in (6, 7, 8):
            bus.append([message(number, key=key_of(0))]).result(20)

        def all_read() -> bool:
            owned = assignment.partitions().get(0)
            return isinstance(owned, KafkaReader) and numbers(owned, after=6000) == [6, 7, 8]

        wait_until(all_read)


def _end(reader: KafkaReader) -> int | None:
    try:
        return reader.end()
    except Unavailable:
        return None
