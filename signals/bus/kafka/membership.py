"""Which partitions this process owns: those that the consumer group gives it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka import KafkaConsumer

from signals.bus.kafka import configuring
from signals.bus.kafka.reading import Consumption, KafkaReader, kafkas_errors
from signals.bus.kafka.topic import prepared
from signals.bus.port import BusReader
from signals.settings import BusSettings

log = logging.getLogger(__name__)


class KafkaAssignment:
    """See ``Assignment``. Joins the group when first asked; rebalances are cooperative.

    What is kept by a rebalance is read on without a pause; what another gets is dropped at the next
    call, and by the file's epoch it cannot be written any more even before that.
    """

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings
        self._consumption: Consumption | None = None

    def partitions(self) -> Mapping[int, BusReader]:
        """See ``Assignment.partitions``. Raises ``Unavailable`` while no broker answers.

        Raises ``Rejected`` when the topic does not go with the settings.
        """
        if self._consumption is None:
            self._consumption = self._join()
        consumption = self._consumption
        consumption.fetch()
        with kafkas_errors():
            owned = {each.partition for each in consumption.consumer.assignment()}
        readers = consumption.readers
        if owned != readers.keys():
            log.info("owned now: partitions %s of %s", sorted(owned), consumption.topic)
        for number in readers.keys() - owned:
            readers.pop(number).close()
        for number in owned - readers.keys():
            readers[number] = KafkaReader(consumption, number)
        return dict(readers)

    def close(self) -> None:
        """See ``Assignment.close``."""
        if self._consumption is not None:
            self._consumption.close()
            self._consumption = None

    def _join(self) -> Consumption:
        prepared(self._settings)
        kafka = self._settings.kafka
        options = configuring.member(kafka)
        consumption = Consumption(kafka, lambda: KafkaConsumer(**options))
        consumption.consumer.subscribe([kafka.topic])
        return consumption
