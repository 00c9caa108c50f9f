"""Which partitions this process owns: those that the consumer group gives it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer

from signals.bus.kafka import configuring
from signals.bus.kafka.connecting import connect
from signals.bus.kafka.consuming import Consumption, Moves
from signals.bus.kafka.reading import KafkaReader
from signals.bus.kafka.topic import prepared
from signals.bus.port import BusReader
from signals.bus.settings import BusSettings

log = logging.getLogger(__name__)


class KafkaAssignment:
    """See ``Assignment``. Joins the group when first asked; rebalances are cooperative.

    What is kept by a rebalance is read on without a pause; what another gets is dropped at the next
    call, and by the file's epoch it cannot be written any more even before that.
    """

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings
        self._consumption: Consumption | None = None
        self._readers: dict[int, KafkaReader] = {}

    def partitions(self) -> Mapping[int, BusReader]:
        """See ``Assignment.partitions``. Raises ``Unavailable`` while no broker answers.

        Raises ``Rejected`` when the topic does not go with the settings.
        """
        if self._consumption is not None and self._consumption.is_stuck():
            log.warning("a partition of %s is not fetched: joining anew", self._consumption.topic)
            self.close()
        if self._consumption is None:
            self._consumption = self._join()
        owned = self._consumption.assigned()
        if owned != self._readers.keys():
            log.info("owned now: partitions %s of %s", sorted(owned), self._consumption.topic)
        for number in self._readers.keys() - owned:
            self._readers.pop(number).close()
        for number in owned - self._readers.keys():
            self._readers[number] = KafkaReader(self._consumption, number)
        return dict(self._readers)

    def close(self) -> None:
        """See ``Assignment.close``."""
        self._readers.clear()
        if self._consumption is not None:
            self._consumption.close()
            self._consumption = None

    def _join(self) -> Consumption:
        prepared(self._settings)
        settings = self._settings.kafka
        options = configuring.member(settings)

        def make(moves: Moves) -> Any:
            consumer = connect(KafkaConsumer, options)
            consumer.subscribe([settings.topic], listener=moves)
            return consumer

        return Consumption(settings, make)
