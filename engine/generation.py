"""What an engine is asked and what it answers. Free of torch and of HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from policies.runtime_config import Shrink, Stamp
from signals.errors import Unavailable

Class = Literal["interactive", "batch"]
FinishReason = Literal["stop", "length", "cancelled", "error"]
CLASSES: tuple[Class, ...] = ("interactive", "batch")
"""Served in this order; the last is preempted first."""


class Generation(Struct, frozen=True, kw_only=True):
    """One request for tokens, after templating and tokenising.

    ``temperature`` 0 is greedy. ``seed`` with ``id`` of the position decides the draw, never the
    batch (invariant 14). ``arrival_s`` is monotonic.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    class_: Class = "interactive"
    intent: str = "default"
    arrival_s: float
    stamp: Stamp
    external_id: str | None = None
    session_id: str | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """Times (monotonic seconds) and counts of one request so far."""

    admitted_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    output_tokens: int = 0
    preemptions: int = 0


class Output(Struct, frozen=True, kw_only=True):
    """One piece of an answer. The last one has ``finish`` set; ``error`` goes with ``"error"``."""

    id: str
    text: str
    tokens: tuple[int, ...]
    finish: FinishReason | None = None
    error: str | None = None
    progress: Progress


class Limits(Struct, frozen=True, kw_only=True):
    """The knobs' values for one step."""

    active_cap: int
    step_token_budget: int
    shrink: Shrink = "drain"


class StepRecord(Struct, frozen=True, kw_only=True):
    """What one engine step did; preallocated nowhere because it is made once per step only."""

    began_s: float
    took_s: float
    decode: int
    prefill_tokens: int
    output_tokens: dict[str, int]
    preempted: int
    limits: Limits


class Load(Struct, frozen=True, kw_only=True):
    """Where the engine stands: per intent (waiting, running), and KV blocks."""

    waiting: dict[str, int]
    running: dict[str, int]
    kv_blocks_used: int
    kv_blocks_total: int


Boundary = Callable[[Load], Limits]
"""Called by the engine's thread before each step, and every ≤ 50 ms when idle: applies what is
pending and answers the limits of the next step."""


class QueueFull(Unavailable):
    """As many requests wait as may; the same request can be tried again later."""


class Generator(Protocol):
    """An engine that makes tokens. Thread-safe; outputs arrive on the engine's thread."""

    def submit(self, request: Generation, on_output: Callable[[Output], None]) -> None:
        """Queue a request. Raises ``QueueFull`` when the waiting queue is at its bound."""

    def cancel(self, request_id: str) -> None:
        """Free the request's KV blocks at the next step boundary. Unknown ids are ignored."""

    def load(self) -> Load:
        """A recent snapshot; safe from any thread."""

    def wake(self) -> None:
        """Make an idle engine reach its next boundary now (a setting was submitted)."""
