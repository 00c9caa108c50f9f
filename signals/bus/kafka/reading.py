"""The reading end on Kafka: one consumer on one thread, a reader for each of its partitions.

kafka-python's consumer is not thread-safe, so all readers of one ``Consumption`` belong to the
thread that asks them. What it fetched and nobody has read yet waits in the partition's reader, and
a partition with something waiting is paused: memory is bounded by one fetch of each partition, of
kafka-python's 1 MiB before decompression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import kafka.errors
from kafka import KafkaConsumer, TopicPartition

from signals.bus.kafka import configuring
from signals.bus.kafka.records import end_of, first_kafka_offset, unpack
from signals.bus.port import BusStatus, Consumed, Entry
from signals.errors import Broken, Unavailable
from signals.settings import KafkaSettings

NOBODY: Mapping[str, Consumed] = {}
_POLL_RECORDS = 1000
_WAIT_MS = 10
"""How long a read waits for news: longer than a broker near by needs for an answer."""


@contextmanager
def kafkas_errors() -> Iterator[None]:
    """What Kafka raises may pass: ``Unavailable``.

    A rebalance happens on the client's own thread: by ``KeyError`` and ``ValueError`` it says that
    the partition has just gone.
    """
    try:
        yield
    except (kafka.errors.KafkaError, KeyError, ValueError) as error:
        raise Unavailable(f"Kafka: {error or type(error).__name__}") from error


class Consumption:
    """A consumer and what it fetched. Raises ``Unavailable`` when no broker answers."""

    def __init__(self, settings: KafkaSettings, make: Callable[[], Any]) -> None:
        self.topic = settings.topic
        self.readers: dict[int, KafkaReader] = {}
        with kafkas_errors():
            self.consumer = make()

    def fetch(self, *, wait_ms: int = 0) -> None:
        """Let readers have what has come. Keeps a membership alive."""
        if any(reader.waiting for reader in self.readers.values()):
            wait_ms = 0
        with kafkas_errors():
            assigned = self.consumer.assignment()
            for reader in self.readers.values():
                if reader.partition in assigned:
                    turn = self.consumer.pause if reader.full else self.consumer.resume
                    turn(reader.partition)
            found = self.consumer.poll(timeout_ms=wait_ms, max_records=_POLL_RECORDS)
        for partition, records in found.items():
            if partition.partition in self.readers:
                self.readers[partition.partition].take(records)

    def close(self) -> None:
        """Leave the group, if there is one, and let go of the connections."""
        self.consumer.close(autocommit=False)


class KafkaReader:
    """See ``BusReader``. Reads where it is asked to, never where a group has committed."""

    def __init__(
        self,
        consumption: Consumption,
        partition: int,
        *,
        consumers: Mapping[str, Consumed] = NOBODY,
    ) -> None:
        self.partition = TopicPartition(consumption.topic, partition)
        self._consumption = consumption
        self._consumers = consumers
        self._records: deque[Any] = deque()
        self._unpacked: tuple[int, list[Entry]] = (-1, [])
        self._from = self._next = -1
        self._end = 0
        self._broken: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether something was fetched that nobody has read."""
        return bool(self._records)

    @property
    def full(self) -> bool:
        """Whether nothing more may be fetched now: enough is waiting, or nobody has asked yet."""
        return self.waiting or self._next < 0

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """See ``BusReader.read``."""
        self._stand_at(first_kafka_offset(after=after))
        found = self._collect(after, limit)
        if not found:
            self._consumption.fetch(wait_ms=_WAIT_MS)
            found = self._collect(after, limit)
        if self._broken is not None:
            raise Broken(self._broken)
        self._end = max(self._end, after, *(entry.offset for entry in found[-1:]))
        return found

    def end(self) -> int:
        """See ``BusReader.end``."""
        with kafkas_errors():
            ends = self._consumption.consumer.end_offsets([self.partition])
        self._end = max(self._end, end_of(ends[self.partition]))
        return self._end

    def status(self) -> BusStatus:
        """See ``BusReader.status``. Sizes are the brokers' affair."""
        return BusStatus(
            first=end_of(self._log_start()) + 1,
            end=self.end(),
            consumers={name: _offset_of(consumed) for name, consumed in self._consumers.items()},
            bytes=None,
            segments=None,
            oldest_us=None,
        )

    def close(self) -> None:
        """Forget what was fetched; a later read seeks again."""
        self._records.clear()
        self._from = self._next = -1

    def take(self, records: Sequence[Any]) -> None:
        """What the consumer fetched of this partition; ignored until somebody has asked."""
        for record in records:
            if record.offset != self._next >= 0:
                self._check_jump(record.offset)
            if self._next < 0 or self._broken is not None:
                return
            self._records.append(record)
            self._next = record.offset + 1

    def _check_jump(self, to: int) -> None:
        """Kafka's offsets may skip what transactions or compaction left; events may not go."""
        if to < self._next:
            self._broken = f"{self._name} was read up to {self._next}, which it does not have now"
        elif self._log_start() > self._next:
            self._broken = (
                f"{self._name} begins at {self._log_start()}, and was read only up to"
                f" {self._next}: what lay between was dropped unread"
            )

    def _stand_at(self, kafka_offset: int) -> None:
        """Have everything from there on, in the deque or still to come."""
        if not self._from <= kafka_offset <= self._next:
            self._records.clear()
            self._next, self._broken = -1, None
            with kafkas_errors():
                self._consumption.consumer.seek(self.partition, kafka_offset)
            self._next = kafka_offset
        self._from = kafka_offset
        while self._records and self._records[0].offset < kafka_offset:
            self._records.popleft()

    def _collect(self, after: int, limit: int) -> list[Entry]:
        found: list[Entry] = []
        for record in self._records:
            if len(found) >= limit:
                break
            rest = (entry for entry in self._entries_of(record) if entry.offset > after)
            found.extend(islice(rest, limit - len(found)))
        return found

    def _entries_of(self, record: Any) -> list[Entry]:
        """Unpacked once, though it may be read in several steps."""
        if self._unpacked[0] != record.offset:
            entries = unpack(record.offset, record.value, record.headers, record.timestamp)
            self._unpacked = (record.offset, entries)
        return self._unpacked[1]

    def _log_start(self) -> int:
        with kafkas_errors():
            starts = self._consumption.consumer.beginning_offsets([self.partition])
        return int(starts[self.partition])

    @property
    def _name(self) -> str:
        return f"partition {self.partition.partition} of {self.partition.topic}"


class LoneReader(KafkaReader):
    """A reader in no group: for tools, beside whoever owns the partition."""

    def close(self) -> None:
        """Let go of the connections too, which all that were opened together share."""
        super().close()
        self._consumption.close()


def open_readers(
    settings: KafkaSettings,
    partitions: Iterable[int],
    *,
    consumed: Callable[[int], Mapping[str, Consumed]] = lambda partition: NOBODY,
) -> dict[int, LoneReader]:
    """Readers of these partitions, for one thread. Raises ``Unavailable`` when no broker answers.

    ``consumed``: by partition, the named consumers whose offsets its status tells.
    """
    options = configuring.consumer(settings)
    consumption = Consumption(settings, lambda: KafkaConsumer(**options))
    readers = {
        number: LoneReader(consumption, number, consumers=consumed(number)) for number in partitions
    }
    consumption.readers.update(readers)
    with kafkas_errors():
        consumption.consumer.assign([reader.partition for reader in readers.values()])
    return readers


def _offset_of(consumed: Consumed) -> int | None:
    try:
        return consumed()
    except Unavailable:
        return None
