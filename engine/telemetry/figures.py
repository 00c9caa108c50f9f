"""Figures for a Prometheus scraper, under vLLM's names, so that dashboards made for it work here.

Nothing is counted on the engine's thread: distributions come from ended requests, on the thread
that shows them; gauges are read when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.generation import Load
from engine.telemetry.ledger import EndedVisit
from signals.events import MICROS

TTFT_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
TPOT_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
LASTING_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0)


class Sources(Struct, frozen=True, kw_only=True):
    """Where the gauges are read. All may be called from any thread."""

    load: Callable[[], Load]
    knobs: Callable[[], Mapping[str, int]]
    version: Callable[[], int]
    dropped: Callable[[], int]


class EngineFigures:
    """A watcher of ended requests, and the text of ``/metrics``."""

    def __init__(self, model: str, sources: Sources) -> None:
        self._registry = CollectorRegistry()
        self._labels = {"model_name": model}
        self._ttft = self._histogram(
            "time_to_first_token_seconds", "arrival to first token", TTFT_S
        )
        self._tpot = self._histogram(
            "request_time_per_output_token_seconds", "mean after the first token", TPOT_S
        )
        self._queue = self._histogram("request_queue_time_seconds", "arrival to admission", TTFT_S)
        self._e2e = self._histogram("e2e_request_latency_seconds", "arrival to end", LASTING_S)
        self._prompt = self._counter("prompt_tokens", "prompt tokens of ended requests")
        self._output = self._counter("generation_tokens", "output tokens of ended requests")
        self._preempted = self._counter("num_preemptions", "preemptions of ended requests")
        self._ended = Counter(
            "vllm:request_success",
            "ended requests by how they ended",
            ("model_name", "finished_reason"),
            registry=self._registry,
        )
        self._registry.register(_Present(sources, self._labels))

    def __call__(self, end: EndedVisit) -> None:
        """Count one ended request."""
        self._ended.labels(**self._labels, finished_reason=end.finish).inc()
        self._prompt.inc(len(end.visit.generation.prompt))
        self._output.inc(end.progress.output_tokens)
        self._preempted.inc(end.progress.preemptions)
        for histogram, lasted_us in (
            (self._queue, end.since_arrival_us(end.progress.admitted_s)),
            (self._ttft, end.since_arrival_us(end.progress.first_token_s)),
            (self._tpot, end.tpot_us),
            (self._e2e, end.since_arrival_us(end.ended_s)),
        ):
            if lasted_us is not None:
                histogram.observe(lasted_us / MICROS)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, doc: str, buckets: tuple[float, ...]) -> Histogram:
        family = Histogram(
            f"vllm:{name}", doc, ("model_name",), registry=self._registry, buckets=buckets
        )
        return family.labels(**self._labels)

    def _counter(self, name: str, doc: str) -> Counter:
        family = Counter(f"vllm:{name}", doc, ("model_name",), registry=self._registry)
        return family.labels(**self._labels)


class _Present(Collector):
    """Where the engine stands at the moment of the scrape."""

    def __init__(self, sources: Sources, labels: Mapping[str, str]) -> None:
        self._sources = sources
        self._names = tuple(labels)
        self._values = tuple(labels.values())

    def collect(self) -> Iterable[Metric]:
        """Read every source once."""
        load = self._sources.load()
        running, waiting = sum(load.running.values()), sum(load.waiting.values())
        used = load.kv_blocks_used / max(1, load.kv_blocks_total)
        yield self._gauge("vllm:num_requests_running", "sequences running", running)
        yield self._gauge("vllm:num_requests_waiting", "requests waiting", waiting)
        yield self._gauge("vllm:kv_cache_usage_perc", "share of KV blocks in use, 0 to 1", used)
        yield self._gauge("trimtab_kv_blocks_used", "KV blocks in use", load.kv_blocks_used)
        yield self._gauge("trimtab_settings_version", "changes so far", self._sources.version())
        knobs = GaugeMetricFamily("trimtab_knob", "value in force", labels=(*self._names, "knob"))
        for knob, value in self._sources.knobs().items():
            knobs.add_metric((*self._values, knob), value)
        yield knobs
        lost = CounterMetricFamily("trimtab_signals_dropped", "records lost to a full ring")
        lost.add_metric((), self._sources.dropped())
        yield lost

    def _gauge(self, name: str, doc: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, doc, labels=self._names)
        family.add_metric(self._values, value)
        return family
