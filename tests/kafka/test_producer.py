"""The producer when connections are cut, when the broker stands still, and when it is full."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future

import pytest

from benchmarks.broker import Broker
from signals.bus.kafka.producing import KafkaBus
from signals.bus.kafka.reading import open_readers
from signals.bus.port import Message
from signals.bus.settings import BusSettings
from signals.errors import Rejected, Unavailable
from tests.kafka.buses import PARTITIONS, freeze, key_of, message, settings_for, thaw, wait_until
from tests.kafka.proxy import Proxy
from tests.signals.bus_contract import read_all

CUTS = 15
WITHIN_S = 20.0


def bodies(settings: BusSettings) -> list[int]:
    """Every number on the topic, by partition and in order."""
    readers = open_readers(settings.kafka, range(PARTITIONS))
    try:
        return [int(entry.body) for reader in readers.values() for entry in read_all(reader)]
    finally:
        readers[0].close()


def test_nothing_is_lost_or_doubled_when_connections_are_cut_before_the_reply() -> None:
    with Proxy() as proxy, Broker(advertised=proxy.port) as broker:
        proxy.upstream = broker.port
        settings = settings_for(proxy.port, request_timeout_ms=10_000)
        bus = KafkaBus(settings)
        futures: list[Future[None]] = []
        sent = 0
        for cut in range(CUTS):
            proxy.cut_next()
            while not proxy.wait_for_cut(0.002):
                batch = [message(sent + n, key=key_of(sent % PARTITIONS)) for n in range(3)]
                futures.append(bus.append(batch))
                sent += 3
            assert proxy.cuts == cut + 1
            futures[-1].result(WITHIN_S)
        for future in futures:
            assert future.result(WITHIN_S) is None
        bus.close()
        assert sorted(bodies(settings)) == list(range(sent))


def test_a_broker_that_stands_still_makes_appends_unavailable_and_is_found_again() -> None:
    with Broker() as broker:
        settings = settings_for(broker.port, request_timeout_ms=1000)
        bus = KafkaBus(settings)
        bus.append([message(0)]).result(WITHIN_S)
        freeze(broker.pid)
        began_s = time.monotonic()
        with pytest.raises(Unavailable, match="brokers did not take"):
            bus.append([message(1)]).result(WITHIN_S)
        assert time.monotonic() - began_s < 5
        assert not bus.healthy()
        thaw(broker.pid)
        wait_until(bus.healthy)
        wait_until(lambda: bus.append([message(2)]).exception(WITHIN_S) is None)
        bus.append([message(3)]).result(WITHIN_S)
        bus.close()
        assert {0, 2, 3} <= set(bodies(settings))


def test_a_batch_of_which_a_part_expires_first_is_answered_too() -> None:
    """The client forgets the rest of it then: nothing of it expires any more."""
    with Broker() as broker:
        bus = KafkaBus(settings_for(broker.port, request_timeout_ms=1000))
        bus.append([message(0)]).result(WITHIN_S)
        batch = [
            Message(
                key=key_of(n % PARTITIONS), body=os.urandom(50_000), producer="p", accepted_us=n
            )
            for n in range(600)
        ]
        freeze(broker.pid)
        for _ in range(3):
            began_s = time.monotonic()
            with pytest.raises(Unavailable):
                bus.append(batch).result(WITHIN_S)
            assert time.monotonic() - began_s < 5
        thaw(broker.pid)
        wait_until(bus.healthy)
        bus.append(batch).result(WITHIN_S)
        bus.close()


def test_what_waits_is_bounded_and_more_is_refused_at_once() -> None:
    with Broker() as broker:
        bus = KafkaBus(settings_for(broker.port, queue_events=100, request_timeout_ms=3000))
        bus.append([message(0)]).result(WITHIN_S)
        freeze(broker.pid)
        waiting = bus.append([message(n) for n in range(90)])
        began_s = time.monotonic()
        with pytest.raises(Unavailable, match="90 events already wait"):
            bus.append([message(n) for n in range(20)])
        assert time.monotonic() - began_s < 0.5
        thaw(broker.pid)
        assert waiting.result(WITHIN_S) is None
        bus.append([message(n) for n in range(500)]).result(WITHIN_S)
        bus.close()


def test_closing_while_the_broker_is_away_answers_everybody_in_time() -> None:
    with Broker() as broker:
        bus = KafkaBus(settings_for(broker.port, request_timeout_ms=1000))
        bus.append([message(0)]).result(WITHIN_S)
        broker.close()
        futures = [bus.append([message(n)]) for n in range(5)]
        closing = threading.Thread(target=bus.close)
        closing.start()
        closing.join(WITHIN_S)
        assert not closing.is_alive()
        for future in futures:
            with pytest.raises(Unavailable):
                future.result(0)


def test_no_bus_is_opened_without_a_broker() -> None:
    with Broker() as broker:
        port = broker.port
    with pytest.raises(Unavailable, match="Kafka"):
        KafkaBus(settings_for(port, request_timeout_ms=1000))


def test_an_event_that_no_record_can_hold_is_refused_and_what_is_beside_it_can_be_posted(
    settings: BusSettings,
) -> None:
    bus = KafkaBus(settings)
    too_large = Message(key="chat", body=b"x" * 1_100_000, producer="shop", accepted_us=1)
    with pytest.raises(Rejected, match="larger than the log takes"):
        bus.append([message(1), too_large])
    bus.append([message(1)]).result(WITHIN_S)
    bus.close()
    assert bodies(settings) == [1]
