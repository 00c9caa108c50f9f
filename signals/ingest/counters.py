"""What ingest counts about itself, for ``GET /metrics``."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from signals.bus.port import BusStatus
from signals.ingest.bus_gauges import BusGauges
from signals.ingest.sorting import Refused
from signals.wire import Posted

_COMMIT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
FIELDS: Final = frozenset(Posted.__struct_fields__)
"""Labels of refusals; any other field, whose name a client can make up, is ``other``."""


class IngestCounters:
    """Counters of one app, in a registry of their own; counted per post, not per event."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._accepted = Counter(
            "trimtab_signals_accepted", "Events acknowledged", ["kind"], registry=self._registry
        )
        self._duplicates = Counter(
            "trimtab_signals_duplicates", "Of those, seen before", registry=self._registry
        )
        self._refused = Counter(
            "trimtab_signals_refused", "Events refused", ["field"], registry=self._registry
        )
        self.turned_away = Counter(
            "trimtab_signals_turned_away",
            "Posts of which nothing was looked at, by status",
            ["status"],
            registry=self._registry,
        )
        self.unavailable = Counter(
            "trimtab_signals_unavailable", "Posts answered 503", registry=self._registry
        )
        self.commit_s = Histogram(
            "trimtab_signals_commit_seconds",
            "From handing a post to the bus to its fsync",
            buckets=_COMMIT_BUCKETS_S,
            registry=self._registry,
        )

    def count_accepted(self, kinds: Mapping[str, int], duplicates: int) -> None:
        """One post's."""
        for kind, count in kinds.items():
            self._accepted.labels(kind).inc(count)
        if duplicates:
            self._duplicates.inc(duplicates)

    def count_refused(self, refused: Iterable[Refused]) -> None:
        """One post's."""
        fields = Tally((each.field or "").partition(".")[0] for each in refused)
        for field, count in fields.items():
            self._refused.labels(field if field in FIELDS else "other").inc(count)

    def watch_bus(self, status: Callable[[], BusStatus]) -> None:
        """Show the log's gauges too."""
        self._registry.register(BusGauges(status))

    def text(self) -> bytes:
        """In the Prometheus text format."""
        return generate_latest(self._registry)
