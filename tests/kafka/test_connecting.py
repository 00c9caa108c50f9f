"""Neither a missing broker nor an ordinary end leaves threads and sockets behind."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from benchmarks.broker import Broker
from signals.bus.kafka.line import Line
from signals.bus.kafka.membership import KafkaAssignment
from signals.bus.kafka.producing import KafkaBus
from signals.bus.kafka.reading import open_readers
from signals.bus.kafka.topic import prepared
from signals.bus.settings import BusSettings
from signals.errors import Unavailable
from tests.kafka.buses import PARTITIONS, message, settings_for, wait_until


def held() -> tuple[set[str], int]:
    """Kafka's threads, and open files."""
    gc.collect()
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("kafka")}
    return names, len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def unlogged() -> Iterator[None]:
    """What pytest captures of the log holds on to the clients that it is about."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def away() -> BusSettings:
    """Of a broker that has gone."""
    with Broker() as broker:
        port = broker.port
    return settings_for(port, request_timeout_ms=1000)


@pytest.mark.parametrize(
    "attempt",
    [
        prepared,
        lambda settings: open_readers(settings.kafka, [0]),
        lambda settings: Line(settings.kafka),
        lambda settings: KafkaAssignment(settings).partitions(),
    ],
    ids=["topic", "readers", "producer", "member"],
)
def test_an_attempt_without_a_broker_is_unavailable_and_leaves_nothing(
    attempt: Callable[[BusSettings], object], away: BusSettings
) -> None:
    before = held()
    with pytest.raises(Unavailable, match="Kafka"):
        attempt(away)
    assert held() == before


def test_closing_leaves_nothing(settings: BusSettings) -> None:
    before = held()
    bus = KafkaBus(settings)
    bus.append([message(1)]).result(20)
    readers = open_readers(settings.kafka, range(PARTITIONS))
    assignment = KafkaAssignment(settings)
    wait_until(lambda: len(assignment.partitions()) == PARTITIONS)
    assert held() != before
    assignment.close()
    readers[0].close()
    with pytest.raises(Unavailable, match="closed"):
        readers[1].end()
    bus.close()
    wait_until(lambda: held() == before)
