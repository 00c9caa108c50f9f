"""How far the log is and who is how far behind, for ``GET /metrics``; asked at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from signals.bus.port import BusStatus


class BusGauges(Collector):
    """Gauges of one log. A consumer that cannot be read has no lag: alert on its absence too."""

    def __init__(self, status: Callable[[], BusStatus]) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Their names, without asking anybody."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client's ``Collector``."""
        status = self._status()
        yield GaugeMetricFamily(
            "trimtab_bus_end_offset", "The last committed offset", value=status.end
        )
        yield GaugeMetricFamily(
            "trimtab_bus_first_offset", "The first retained offset", value=status.first
        )
        if status.bytes is not None:
            yield GaugeMetricFamily("trimtab_bus_bytes", "On the disk", value=status.bytes)
        if status.segments is not None:
            yield GaugeMetricFamily("trimtab_bus_segments", "Files", value=status.segments)
        lag = GaugeMetricFamily(
            "trimtab_bus_consumer_lag", "Events not read yet", labels=["consumer"]
        )
        for consumer in status.consumers:
            behind = status.lag(consumer)
            if behind is not None:
                lag.add_metric([consumer], behind)
        yield lag
