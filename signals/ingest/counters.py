"""What ingest counts about itself, for ``GET /metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

_COMMIT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class IngestCounters:
    """Counters of one app, in a registry of their own; counted per post, not per event."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.accepted = Counter(
            "trimtab_signals_accepted", "Events acknowledged", ["kind"], registry=self._registry
        )
        self.duplicates = Counter(
            "trimtab_signals_duplicates", "Of those, seen before", registry=self._registry
        )
        self.refused = Counter(
            "trimtab_signals_refused", "Events refused", ["field"], registry=self._registry
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

    def text(self) -> bytes:
        """In the Prometheus text format."""
        return generate_latest(self._registry)
