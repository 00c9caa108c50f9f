"""Writes down each request twice: when it arrives and when it ends. Never its text.

A request belongs to the stamp it arrived under. Wall-clock times are its arrival's plus monotonic
durations, so no step of the system clock can make an answer end before it began.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from engine.generation import Generation, Progress
from engine.stamps import seen
from engine.telemetry.ring import TelemetryRing
from signals.events import MICROS, Arrived, Finished, Status

STATUS: dict[str, Status] = {
    "stop": "ok",
    "length": "ok",
    "cancelled": "cancelled",
    "error": "error",
    "rejected": "rejected",
}


class Visit(Struct, frozen=True, kw_only=True):
    """One request as the ledger knows it. ``traceparent``: the caller's trace, where it has one."""

    generation: Generation
    arrival_wall_s: float
    traceparent: str | None = None

    @property
    def arrival_us(self) -> int:
        """Unix microseconds."""
        return round(self.arrival_wall_s * MICROS)


class EndedVisit(Struct, frozen=True, kw_only=True):
    """How a request ended; ``ended_s`` is monotonic. ``finish`` may be ``"rejected"``."""

    visit: Visit
    finish: str
    progress: Progress
    ended_s: float
    error: str | None = None

    def since_arrival_us(self, moment_s: float | None) -> int | None:
        """Microseconds from arrival to a monotonic moment; None stays None."""
        if moment_s is None:
            return None
        return max(0, round((moment_s - self.visit.generation.arrival_s) * MICROS))

    @property
    def tpot_us(self) -> int | None:
        """Mean microseconds per output token after the first; None with fewer than two."""
        first_s, last_s = self.progress.first_token_s, self.progress.last_token_s
        if first_s is None or last_s is None or self.progress.output_tokens < 2:
            return None
        return round((last_s - first_s) * MICROS / (self.progress.output_tokens - 1))


class Ledger:
    """Thread-safe. ``on_ended`` is told of each end, on the caller's thread: be quick."""

    def __init__(self, ring: TelemetryRing, on_ended: Callable[[EndedVisit], None]) -> None:
        self._ring = ring
        self._on_ended = on_ended

    def arrived(self, visit: Visit) -> None:
        """Record that a request came, whether or not the queue will take it."""
        asked = visit.generation
        self._ring.push(
            lambda seq: Arrived(
                seq=seq,
                stamp=seen(asked.stamp),
                request_id=asked.id,
                intent=asked.intent,
                class_=asked.class_,
                arrival_us=visit.arrival_us,
                prompt_tokens=len(asked.prompt),
                max_tokens=asked.max_tokens,
                external_id=asked.external_id,
                session_id=asked.session_id,
            )
        )

    def ended(self, end: EndedVisit) -> None:
        """Record that a request ended, and how."""
        asked, arrival_us = end.visit.generation, end.visit.arrival_us
        lasted_us = end.since_arrival_us(end.ended_s) or 0
        self._ring.push(
            lambda seq: Finished(
                seq=seq,
                stamp=seen(asked.stamp),
                request_id=asked.id,
                intent=asked.intent,
                class_=asked.class_,
                arrival_us=arrival_us,
                finished_us=arrival_us + lasted_us,
                status=STATUS[end.finish],
                prompt_tokens=len(asked.prompt),
                output_tokens=end.progress.output_tokens,
                max_tokens=asked.max_tokens,
                queue_us=end.since_arrival_us(end.progress.admitted_s),
                ttft_us=end.since_arrival_us(end.progress.first_token_s),
                tpot_us=end.tpot_us,
                preemptions=end.progress.preemptions,
                error=end.error,
                external_id=asked.external_id,
                session_id=asked.session_id,
            )
        )
        self._on_ended(end)
