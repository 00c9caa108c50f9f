"""The writing end on Kafka: an idempotent producer, acknowledged by all in-sync replicas."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import kafka.errors

from signals.bus.kafka.line import Line
from signals.bus.kafka.records import HEADERS, pack, size_of
from signals.bus.kafka.topic import prepared
from signals.bus.port import Message, partition_of
from signals.bus.settings import BusSettings
from signals.errors import Rejected, Unavailable

log = logging.getLogger(__name__)

_FAILING_S = 1.0
_STALLED_S = 1.0
_LOOK_S = 0.25
_LATE_S = 1.0
"""How long after kafka-python's own time-out a delivery is given up by us: it may forget one."""
_MAX_EVENT_BYTES = 1_048_576
_OVERHEAD_BYTES = 1024
"""What a request is longer than the one event in it."""


class KafkaBus:
    """See ``Bus``. Makes the topic if need be, and refuses one that does not keep its promises.

    Raises ``Rejected`` naming the setting, ``Unavailable`` when no broker answers.
    """

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings.kafka
        self._queue_events = settings.queue_events
        topic = prepared(settings)
        self._max_event_bytes = topic.max_record_bytes - _OVERHEAD_BYTES
        self.max_event_bytes = min(_MAX_EVENT_BYTES, self._max_event_bytes - _OVERHEAD_BYTES)
        self._lock = threading.Lock()
        self._waiting = 0
        self._closed = False
        self._failed_at_s = float("-inf")
        self._moved_at_s = float("-inf")
        self._under_way: deque[_Delivery] = deque()
        self._limit_s = (self._settings.request_timeout_ms + self._settings.linger_ms) / 1000
        self._line = Line(settings.kafka)
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._give_up_late, name="kafka-late", daemon=True)
        self._clock.start()

    def append(self, batch: Sequence[Message]) -> Future[None]:
        """See ``Bus.append``. A batch larger than the whole bound is taken when nothing waits.

        Raises ``Rejected`` for an event that no record of the topic can hold.
        """
        records = self._records(batch)
        producer = self._admit(len(batch))
        delivery = _Delivery(producer, len(batch), self._answered)
        self._under_way.append(delivery)
        topic = self._settings.topic
        try:
            for partition, value in records:
                sent = producer.send(topic, value=value, partition=partition, headers=HEADERS)
                delivery.follow(sent)
        except (kafka.errors.KafkaError, ValueError) as error:
            delivery.failed(error)
        else:
            delivery.acknowledged()
        return delivery.done

    def healthy(self) -> bool:
        """There is room, no delivery failed a moment ago, and what waits is getting on.

        While nothing is posted nothing is known of the brokers: then it is what it was last.
        """
        now_s = time.monotonic()
        with self._lock:
            room = self._waiting < self._queue_events
            stalled = self._waiting > 0 and now_s - self._moved_at_s > _STALLED_S
            failing = now_s - self._failed_at_s < _FAILING_S
            ready = self._line.producer is not None
            return ready and room and not (stalled or failing or self._closed)

    def close(self) -> None:
        """See ``Bus.close``. What the brokers do not take in time is answered ``Unavailable``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._line.close()
        self._over.set()
        self._clock.join()
        while self._under_way:
            self._under_way.popleft().failed(Unavailable("the bus is closed"))

    def _records(self, batch: Sequence[Message]) -> list[tuple[int, bytes]]:
        """The batch as (partition, value of a record); a partition's are in the batch's order."""
        shares: dict[int, list[Message]] = {}
        partitions: dict[str, list[Message]] = {}
        for message in batch:
            share = partitions.get(message.key)
            if share is None:
                number = partition_of(message.key, self._settings.partitions)
                share = partitions[message.key] = shares.setdefault(number, [])
            if size_of(message) > self._max_event_bytes:
                raise Rejected(
                    f"an event of {len(message.body)} bytes is larger than the log takes",
                    value=len(message.body),
                    allowed=f"less than {self._max_event_bytes}",
                )
            share.append(message)
        record_bytes = self._settings.record_bytes
        return [
            (number, value)
            for number, share in shares.items()
            for value in pack(share, record_bytes=record_bytes)
        ]

    def _admit(self, events: int) -> Any:
        """Count them as waiting; the producer to send them by."""
        with self._lock:
            if self._closed:
                raise Unavailable("the bus is closed")
            producer = self._line.producer
            if producer is None:
                raise Unavailable("the brokers did not answer, and are being called again")
            if self._waiting > 0 and self._waiting + events > self._queue_events:
                raise Unavailable(f"{self._waiting} events already wait for the brokers")
            if self._waiting == 0:
                self._moved_at_s = time.monotonic()
            self._waiting += events
            return producer

    def _give_up_late(self) -> None:
        """Nobody waits for ever, whatever becomes of his records in the client."""
        while not self._over.wait(_LOOK_S):
            late_s = time.monotonic() - self._limit_s - _LATE_S
            while self._under_way and (
                self._under_way[0].done.done() or self._under_way[0].began_s < late_s
            ):
                late = self._under_way.popleft()
                late.failed(TimeoutError("they have not answered in time"))

    def _answered(self, delivery: _Delivery) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._waiting -= delivery.events
            self._moved_at_s = now_s
            if delivery.failure is not None:
                if now_s - self._failed_at_s > _FAILING_S:
                    log.warning("the brokers took no events: %s", delivery.failure)
                self._failed_at_s = now_s
        if delivery.failure is not None:
            self._line.replace(delivery.producer)


class _Delivery:
    """A batch under way: answered once, when the last of its records was, or the first one failed.

    At the first, not the last: of a producer that failed nothing more may be heard.
    """

    def __init__(self, producer: Any, events: int, on_answer: Callable[[_Delivery], None]) -> None:
        self.producer = producer
        self.done: Future[None] = Future()
        # A running future can't be cancelled: who gives up waiting must not take the answer away.
        self.done.set_running_or_notify_cancel()
        self.events = events
        self.began_s = time.monotonic()
        self.failure: Exception | None = None
        self._on_answer = on_answer
        self._under_way = 1
        self._answered = False
        self._lock = threading.Lock()

    def follow(self, record: Any) -> None:
        """Wait for this record too; its future is answered on the producer's thread."""
        with self._lock:
            self._under_way += 1
        record.add_callback(self.acknowledged)
        record.add_errback(self.failed)

    def acknowledged(self, _: object = None) -> None:
        """A record is with the brokers, or: all records were sent."""
        with self._lock:
            self._under_way -= 1
            if self._under_way > 0 or self._answered:
                return
            self._answered = True
        self._on_answer(self)
        self.done.set_result(None)

    def failed(self, error: Exception) -> None:
        """A record may or may not be with the brokers."""
        with self._lock:
            if self._answered:
                return
            self._answered = True
            self.failure = error
        self._on_answer(self)
        self.done.set_exception(Unavailable(f"the brokers did not take the events: {error}"))
