"""The reading end on Kafka: a partition, from where it is asked to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from signals.bus.kafka import configuring
from signals.bus.kafka.connecting import connect
from signals.bus.kafka.consuming import Consumption, Moves
from signals.bus.kafka.records import end_of, first_kafka_offset, unpack
from signals.bus.port import BusStatus, Consumed, Entry
from signals.bus.settings import KafkaSettings
from signals.errors import Broken, Unavailable

NOBODY: Mapping[str, Consumed] = {}
FULL_BYTES = 4_194_304
"""What may wait in memory for a partition's reader before no more of it is fetched; one poll
(``POLL_RECORDS``) and one fetch (1 MiB, compressed) come on top."""
_END_POLLS = 50
"""Polls that may pass until a first fetch tells the end: a second, when there is no news."""
_WAIT_S = 0.01
"""How long a read waits for news: longer than a broker near by needs for an answer."""
_IN_VAIN = 3
"""Times that a silent partition is sought again before its consumer is given up."""
_SOUGHT_S = 2.0
"""How long the first read after a seek waits for what is there."""


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
        self._bytes = 0
        self._unpacked: tuple[int, list[Entry]] = (-1, [])
        self._from = self._next = -1
        self._end = 0
        self._in_vain = 0
        self._broken: str | None = None
        consumption.feed(self)

    @property
    def full(self) -> bool:
        """Whether enough is waiting, or nobody has said yet where to read."""
        return self._bytes >= FULL_BYTES or self._next < 0

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """See ``BusReader.read``."""
        sought = self._stand_at(first_kafka_offset(after=after))
        found = self._collect(after, limit)
        if not found and self._comes(after, sought=sought):
            found = self._collect(after, limit)
        if not found and self._broken is not None:
            raise Broken(self._broken)
        self._end = max(self._end, after, *(entry.offset for entry in found[-1:]))
        return found

    def end(self) -> int:
        """See ``BusReader.end``."""
        self._end = max(self._end, end_of(self._consumption.ask(self._log_end)))
        return self._end

    def status(self) -> BusStatus:
        """See ``BusReader.status``. Sizes are the brokers' affair."""
        start = self._consumption.ask(self._log_start)
        return BusStatus(
            first=end_of(start) + 1,
            end=self.end(),
            consumers={name: _offset_of(consumed) for name, consumed in self._consumers.items()},
            bytes=None,
            segments=None,
            oldest_us=None,
        )

    def close(self) -> None:
        """Let go of what was fetched."""
        self._consumption.forget(self.partition)

    def take(self, records: Sequence[Any], consumer: Any) -> None:
        """See ``Feed.take``."""
        self._in_vain = 0
        for record in records:
            if self._next < 0 or self._broken is not None:
                return
            broken = self._jump(record.offset, consumer)
            with self._consumption.changed:
                if broken is None:
                    self._records.append(record)
                    self._bytes += len(record.value or b"")
                    self._next = record.offset + 1
                self._broken = broken
                self._consumption.changed.notify_all()

    def revive(self, consumer: Any) -> bool:
        """See ``Feed.revive``."""
        behind = int(consumer.end_offsets([self.partition])[self.partition]) > self._next
        self._in_vain = self._in_vain + 1 if behind else 0
        consumer.seek(self.partition, self._next)
        return self._in_vain >= _IN_VAIN

    def moved(self) -> None:
        """See ``Feed.moved``; the next read seeks again."""
        with self._consumption.changed:
            self._forget()

    def _jump(self, to: int, consumer: Any) -> str | None:
        """Kafka's offsets may skip what transactions or compaction left; events may not go."""
        name = f"partition {self.partition.partition} of {self.partition.topic}"
        if to < self._next:
            return f"{name} was read up to {self._next}, which it does not have now"
        if to > self._next and (start := self._log_start(consumer)) > self._next:
            return (
                f"{name} begins at {start}, and was read only up to {self._next}: what lay between"
                " was dropped unread"
            )
        return None

    def _stand_at(self, kafka_offset: int) -> bool:
        """Have everything from there on, in the deque or still to come; True when it was sought."""
        with self._consumption.changed:
            if self._from <= kafka_offset <= self._next:
                self._from = kafka_offset
                while self._records and self._records[0].offset < kafka_offset:
                    self._bytes -= len(self._records.popleft().value or b"")
                return False
        self._consumption.ask(lambda consumer: self._seek(consumer, kafka_offset))
        return True

    def _seek(self, consumer: Any, kafka_offset: int) -> None:
        """On the consumer's thread: nothing that was fetched before comes after it."""
        with self._consumption.changed:
            self._forget()
            consumer.seek(self.partition, kafka_offset)
            self._from = self._next = kafka_offset

    def _forget(self) -> None:
        self._records.clear()
        self._bytes, self._broken = 0, None
        self._from = self._next = -1

    def _comes(self, after: int, *, sought: bool) -> bool:
        """Wait for news as long as it is worth it: longer for what is known to be there."""
        if self._wait(after, _WAIT_S):
            return True
        return sought and self.end() > after and self._wait(after, _SOUGHT_S)

    def _wait(self, after: int, within_s: float) -> bool:
        """For a record that is not behind us."""
        first = first_kafka_offset(after=after)

        def news() -> bool:
            return self._next > first or self._broken is not None

        with self._consumption.changed:
            return self._consumption.changed.wait_for(news, within_s)

    def _collect(self, after: int, limit: int) -> list[Entry]:
        with self._consumption.changed:
            records = list(islice(self._records, limit + 1))
        found: list[Entry] = []
        for record in records:
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

    def _log_end(self, consumer: Any) -> int:
        """What is listed, and what comes with fetched records, whichever is further.

        The first is what brokers are asked for ends by, and the one of our tests answers it with
        where the last batch begins.
        """
        listed = int(consumer.end_offsets([self.partition])[self.partition])
        if self._next < 0:
            consumer.seek(self.partition, listed)
        if self._bytes < FULL_BYTES:
            consumer.resume(self.partition)
        for _ in range(_END_POLLS):
            self._consumption.poll()
            if (seen := consumer.highwater(self.partition)) is not None:
                return max(listed, int(seen))
        return listed

    def _log_start(self, consumer: Any) -> int:
        return int(consumer.beginning_offsets([self.partition])[self.partition])


class LoneReader(KafkaReader):
    """A reader in no group: for tools, beside whoever owns the partition."""

    def close(self) -> None:
        """Let go of the connections too, which all that were opened together share."""
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
    numbers = list(partitions)

    def make(_: Moves) -> Any:
        consumer = connect(KafkaConsumer, options)
        consumer.assign([TopicPartition(settings.topic, number) for number in numbers])
        return consumer

    consumption = Consumption(settings, make)
    return {
        number: LoneReader(consumption, number, consumers=consumed(number)) for number in numbers
    }


def _offset_of(consumed: Consumed) -> int | None:
    try:
        return consumed()
    except Unavailable:
        return None
