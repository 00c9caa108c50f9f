"""One trace a request: a server span with ``queue``, ``prefill`` and ``decode`` below it.

Spans are made after the request has ended, from the times the ledger holds, on a thread of their
own: tracing costs the engine one queue entry. Names are OpenTelemetry's GenAI conventions; the
stamp's fields are ``trimtab.*``. A ``traceparent`` that the client sent is the parent. There is no
prompt and no answer in a span.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from engine.telemetry.ledger import EndedVisit
from policies.runtime_config import Stamp

log = logging.getLogger(__name__)

NANOS = 1_000_000_000
_PROPAGATOR = TraceContextTextMapPropagator()


def stamp_attributes(stamp: Stamp) -> Iterator[tuple[str, AttributeValue]]:
    """The stamp, field by field."""
    yield "trimtab.target", stamp.target
    yield "trimtab.replica", stamp.replica
    yield "trimtab.incarnation", stamp.incarnation
    yield "trimtab.version", stamp.version
    yield "trimtab.digest", stamp.digest
    yield "trimtab.policies", list(stamp.policies)
    if stamp.trial is not None:
        yield "trimtab.trial.id", stamp.trial.id
        yield "trimtab.trial.block", stamp.trial.block
        yield "trimtab.trial.arm", stamp.trial.arm


def request_attributes(end: EndedVisit, model: str) -> Iterator[tuple[str, AttributeValue]]:
    """What was asked and what came of it, in GenAI names where there is one."""
    asked, progress = end.visit.generation, end.progress
    yield "gen_ai.operation.name", "chat"
    yield "gen_ai.provider.name", "trimtab"
    yield "gen_ai.request.model", model
    yield "gen_ai.request.max_tokens", asked.max_tokens
    yield "gen_ai.request.temperature", asked.temperature
    yield "gen_ai.request.top_p", asked.top_p
    yield "gen_ai.response.id", asked.id
    yield "gen_ai.response.finish_reasons", [end.finish]
    yield "gen_ai.usage.input_tokens", len(asked.prompt)
    yield "gen_ai.usage.output_tokens", progress.output_tokens
    yield "trimtab.intent", asked.intent
    yield "trimtab.class", asked.class_
    yield "trimtab.preemptions", progress.preemptions
    if (ttft_us := end.since_arrival_us(progress.first_token_s)) is not None:
        yield "gen_ai.server.time_to_first_token", ttft_us / 1e6
    if end.tpot_us is not None:
        yield "gen_ai.server.time_per_output_token", end.tpot_us / 1e6
    if asked.session_id is not None:
        yield "gen_ai.conversation.id", asked.session_id
    if asked.external_id is not None:
        yield "trimtab.external_id", asked.external_id


def phases(end: EndedVisit) -> Iterator[tuple[str, float, float]]:
    """``(name, from, to)`` of each phase the request reached, in monotonic seconds."""
    progress, arrived_s = end.progress, end.visit.generation.arrival_s
    admitted_s, first_s = progress.admitted_s, progress.first_token_s
    yield "queue", arrived_s, end.ended_s if admitted_s is None else admitted_s
    if admitted_s is not None:
        yield "prefill", admitted_s, end.ended_s if first_s is None else first_s
    if first_s is not None:
        yield "decode", first_s, progress.last_token_s or end.ended_s


class RequestTracer:
    """Turns ended requests into spans; where they go is the processors' business."""

    def __init__(
        self,
        model: str,
        resource: Mapping[str, AttributeValue],
        processors: Iterable[SpanProcessor],
    ) -> None:
        self._model = model
        self._provider = TracerProvider(resource=Resource.create(resource), shutdown_on_exit=False)
        for processor in processors:
            self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("trimtab.engine")

    def __call__(self, end: EndedVisit) -> None:
        """Make the spans of one request."""
        parent = None
        if end.visit.traceparent is not None:
            parent = _PROPAGATOR.extract({"traceparent": end.visit.traceparent})
        span = self._tracer.start_span(
            f"chat {self._model}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=dict(request_attributes(end, self._model)),
            start_time=_nanos(end, end.visit.generation.arrival_s),
        )
        span.set_attributes(dict(stamp_attributes(end.visit.generation.stamp)))
        if end.error is not None or end.finish in ("error", "rejected"):
            span.set_attribute("error.type", end.finish)
            span.set_status(Status(StatusCode.ERROR, end.error or end.finish))
        below = trace.set_span_in_context(span)
        for name, from_s, to_s in phases(end):
            child = self._tracer.start_span(name, context=below, start_time=_nanos(end, from_s))
            child.end(_nanos(end, to_s))
        span.end(_nanos(end, end.ended_s))

    def close(self) -> None:
        """Flush and stop the processors."""
        self._provider.shutdown()


def _nanos(end: EndedVisit, moment_s: float) -> int:
    since_s = max(0.0, moment_s - end.visit.generation.arrival_s)
    return round(end.visit.arrival_wall_s * NANOS) + round(since_s * NANOS)


class EndedVisits:
    """A bounded queue of ended requests and the thread that shows each to the watchers.

    When the watchers cannot keep up, further ends are not shown, and ``missed`` counts them.
    """

    def __init__(self, capacity: int) -> None:
        self._queue: queue.Queue[EndedVisit | None] = queue.Queue(capacity)
        self._thread: threading.Thread | None = None
        self.missed = 0

    def start(self, watchers: Iterable[Callable[[EndedVisit], None]]) -> None:
        """Begin to show."""
        self._thread = threading.Thread(
            target=self._run, args=(tuple(watchers),), name="ended-visits", daemon=True
        )
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it shows what is put."""
        return self._thread is not None and self._thread.is_alive()

    def put(self, end: EndedVisit) -> None:
        """Queue one; never waits."""
        try:
            self._queue.put_nowait(end)
        except queue.Full:
            self.missed += 1

    def close(self, timeout_s: float) -> None:
        """Show what is queued, for ``timeout_s`` at most, and stop."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            log.warning("%d ended requests were not shown", self._queue.qsize())
            return
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, watchers: tuple[Callable[[EndedVisit], None], ...]) -> None:
        while (end := self._queue.get()) is not None:
            for watcher in watchers:
                watcher(end)
