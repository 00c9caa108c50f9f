"""The producer in use, and another one in its place once it has failed.

kafka-python 3.0.12 does not get over an idempotent batch that expired after it was sent. It gives
its producer id back, asks for a new one only in the state before the first (``TransactionManager``:
``reset_producer_id``, ``init_producer_id``), sends nothing any more and fails nothing either. So
after any failed delivery the producer is closed, which answers all that waits, and a new one made.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import kafka.errors
from kafka import KafkaProducer

from signals.bus.kafka import configuring
from signals.bus.kafka.connecting import connect
from signals.bus.settings import KafkaSettings
from signals.errors import Unavailable

log = logging.getLogger(__name__)

_BETWEEN_TRIES_S = 0.2
_ENDING_S = 5.0


class Line:
    """Raises ``Unavailable`` when no broker answers at the start. Thread-safe."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic = settings.topic
        self._options = configuring.producer(settings)
        self._closing_s = self._options["delivery_timeout_ms"] / 1000
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._replacing: threading.Thread | None = None
        self._producer: Any = None
        try:
            self._producer = self._connect()
        except kafka.errors.KafkaError as error:
            raise Unavailable(f"Kafka: {error}") from error

    @property
    def producer(self) -> Any:
        """The producer to send by; None while another one is being made, or when closed."""
        return self._producer

    def replace(self, failed: object) -> None:
        """Close this producer, if it is the one in use, and make another; returns at once."""
        with self._lock:
            if self._producer is not failed or self._closed.is_set():
                return
            self._producer = None
            self._replacing = threading.Thread(
                target=self._replace, args=(failed,), name="kafka-producer", daemon=True
            )
            self._replacing.start()

    def close(self) -> None:
        """Deliver what waits, as far as the brokers take it in time; the rest fails."""
        with self._lock:
            self._closed.set()
            producer, self._producer = self._producer, None
        if self._replacing is not None:
            self._replacing.join(self._closing_s + _ENDING_S)
        if producer is not None:
            _end(producer, within_s=self._closing_s)

    def _connect(self) -> Any:
        producer = connect(KafkaProducer, self._options)
        producer.partitions_for(self._topic)
        return producer

    def _replace(self, failed: Any) -> None:
        _end(failed, within_s=0)
        while not self._closed.is_set():
            try:
                producer = self._connect()
            except kafka.errors.KafkaError as error:
                log.info("no broker answers yet: %s", error)
                self._closed.wait(_BETWEEN_TRIES_S)
                continue
            with self._lock:
                if not self._closed.is_set():
                    self._producer = producer
                    return
            _end(producer, within_s=0)


def _end(producer: Any, *, within_s: float) -> None:
    """Close it. Its own ``close`` gives up, thread and all, when the flush before it does."""
    deadline_s = time.monotonic() + within_s
    try:
        producer.close(timeout=within_s)
    except kafka.errors.KafkaTimeoutError:
        producer._sender.force_close()
        producer._sender.join(max(0.0, deadline_s - time.monotonic()) + _ENDING_S)
        producer.close(timeout=_ENDING_S)
