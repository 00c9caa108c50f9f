"""Everything through which an engine tells what it does, wired from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from engine.serving_settings import TelemetrySettings
from engine.settings_in_force import EngineIdentity
from engine.telemetry.counting import CountingRing, Outgoing
from engine.telemetry.ledger import EndedVisit, Ledger
from engine.telemetry.poster import SignalPoster
from engine.telemetry.ring import TelemetryRing
from engine.telemetry.trace_log import JsonLinesExporter
from engine.telemetry.traces import EndedVisits, RequestTracer
from signals.definitions import StaticDefinitions
from signals.features.change import FeatureRules
from signals.features.edge import EdgeCounter
from signals.settings import FeatureSettings, IntentSettings


class Outlets:
    """The ring and its poster; the ledger; traces. ``start`` once, ``close`` once.

    Without ``ingest_url`` the ring holds nothing: every record counts as dropped.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        identity: EngineIdentity,
        *,
        producer_key: str | None,
        intents: Mapping[str, IntentSettings],
    ) -> None:
        self._settings = settings
        self._resource = _resource(identity)
        self._tracer: RequestTracer | None = None
        self.ring = TelemetryRing(settings.telemetry_ring if settings.ingest_url else 0)
        self._ended = EndedVisits(settings.trace_queue)
        self.ledger = Ledger(self.ring, self._ended.put)
        self._poster: SignalPoster | None = None
        if settings.ingest_url is not None:
            self._poster = SignalPoster(
                _outgoing(self.ring, settings, identity, intents),
                url=settings.ingest_url,
                key=producer_key,
                batch=settings.post_events,
                linger_s=settings.post_linger_ms / 1000,
                timeout_s=settings.post_timeout_s,
                backoff_max_s=settings.post_backoff_max_s,
            )

    def start(self, model: str, watch: Callable[[EndedVisit], None]) -> None:
        """Begin to post and to trace; ``watch`` is shown each ended request too."""
        self._tracer = RequestTracer(model, self._resource, _processors(self._settings))
        self._ended.start((watch, self._tracer))
        if self._poster is not None:
            self._poster.start()

    @property
    def alive(self) -> bool:
        """Whether nothing that was started has stopped by itself."""
        return self._ended.alive and (self._poster is None or self._poster.alive)

    def close(self) -> None:
        """Trace and post what is left, within ``flush_s`` each."""
        self._ended.close(self._settings.flush_s)
        if self._tracer is not None:
            self._tracer.close()
        if self._poster is not None:
            self._poster.close(self._settings.flush_s)


def _outgoing(
    ring: TelemetryRing,
    settings: TelemetrySettings,
    identity: EngineIdentity,
    intents: Mapping[str, IntentSettings],
) -> Outgoing:
    if not settings.count_at_edge:
        return ring
    rules = FeatureRules(
        intents={identity.target: intents},
        definitions=StaticDefinitions({}),
        settings=FeatureSettings(),
    )
    source = f"{identity.replica}.{identity.incarnation}"
    return CountingRing(ring, EdgeCounter(rules, source=source))


def _resource(identity: EngineIdentity) -> dict[str, str]:
    return {
        "service.name": "trimtab-engine",
        "service.namespace": identity.target,
        "service.instance.id": f"{identity.replica}.{identity.incarnation}",
    }


def _processors(settings: TelemetrySettings) -> Iterator[SpanProcessor]:
    if settings.trace_log is not None:
        yield SimpleSpanProcessor(
            JsonLinesExporter(
                settings.trace_log,
                max_bytes=settings.trace_log_bytes,
                keep=settings.trace_log_files,
            )
        )
    if settings.otlp_endpoint is not None:
        yield BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.otlp_endpoint))
