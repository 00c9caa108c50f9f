"""The suite of every bus, run on Kafka's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from signals.bus.kafka.producing import KafkaBus
from signals.bus.kafka.reading import LoneReader, open_readers
from signals.bus.settings import BusSettings
from tests.kafka.buses import PARTITIONS
from tests.signals.bus_contract import BusContract, Factory


class KafkaFactory:
    partitions = PARTITIONS
    durable = True

    def __init__(self, settings: BusSettings, opened: ExitStack) -> None:
        self._settings = settings
        self._opened = opened

    def open(self) -> KafkaBus:
        bus = KafkaBus(self._settings)
        self._opened.callback(bus.close)
        return bus

    def reader(self, partition: int = 0) -> LoneReader:
        reader = open_readers(self._settings.kafka, [partition])[partition]
        self._opened.callback(reader.close)
        return reader


class TestKafka(BusContract):
    @pytest.fixture
    def factory(self, settings: BusSettings) -> Iterator[Factory]:
        with ExitStack() as opened:
            yield KafkaFactory(settings, opened)
