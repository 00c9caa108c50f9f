"""Engines without a model: the real settings book and control listener, and seats to sit on.

A sequence takes a seat and a token each beat, so caps drain and preempt, laws see arrivals, and the
whole runtime-config contract holds, for a hundredth of a model's price. Many fit into one process:
one thread beats for all of them, another one serves them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.generation import CLASSES, Limits, Load
from engine.http.control import control_app
from engine.http.listeners import Listeners, bind, url_of
from engine.knobs import embedded_knobs
from engine.live_settings import LiveSettings
from engine.settings_in_force import EngineIdentity, Instant
from policies.runtime_config import Stamp

BEAT_S = 0.01
APPLY_S = 5.0
CAPACITY = 64
ANSWER = 1024


class Seat:
    """One sequence. ``tokens`` are given out one a beat; ``done`` is set with the last."""

    def __init__(self, class_: str, tokens: int, stamp: Stamp) -> None:
        self.class_ = class_
        self.wanted = tokens
        self.tokens = 0
        self.stamp = stamp
        self.done = threading.Event()


class Unobserved:
    """A ``LoadObserver`` for engines whose load nobody aggregates."""

    def arrived(self, intent: str, offered_tokens: int) -> None:
        """Nothing is counted."""

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        """Nothing is counted."""


class BareEngine:
    """One. ``beat`` is for the beating thread alone."""

    def __init__(self, target: str, replica: str, *, capacity: int = CAPACITY) -> None:
        knobs = embedded_knobs(
            capacity_active=capacity,
            capacity_budget=512,
            boot_active_cap=None,
            boot_step_token_budget=None,
            capacity_answer=ANSWER,
            intents=CLASSES,
        )
        identity = EngineIdentity(target=target, replica=replica, incarnation=f"bare-{replica}")
        self.live = LiveSettings(
            identity, knobs, CLASSES, Unobserved(), max_pending=64, remembered=64
        )
        self._lock = threading.Lock()
        self._waiting: list[Seat] = []
        self._running: list[Seat] = []
        self._told_running = 0

    def offer(self, class_: str, tokens: int, session: str | None = None) -> Seat:
        """A request of so many tokens."""
        arrival = self.live.arrive(
            class_, class_, prompt_tokens=0, max_tokens=tokens, session=session
        )
        seat = Seat(class_, arrival.max_tokens, arrival.stamp)
        with self._lock:
            self._waiting.append(seat)
        return seat

    @property
    def running(self) -> int:
        """Sequences that had a seat at the last boundary, as the control listener tells it."""
        return self._told_running

    def beat(self) -> None:
        """One step: settings at its boundary, then seats, then a token each."""
        with self._lock:
            limits = self.live.boundary(self._load())
            self._told_running = len(self._running)
            self._seat(limits)
            for seat in self._running:
                seat.tokens += 1
                if seat.tokens >= seat.wanted:
                    seat.done.set()
            self._running = [seat for seat in self._running if not seat.done.is_set()]

    def _load(self) -> Load:
        return Load(
            waiting=dict(Counter(seat.class_ for seat in self._waiting)),
            running=dict(Counter(seat.class_ for seat in self._running)),
            kv_blocks_used=0,
            kv_blocks_total=0,
        )

    def _seat(self, limits: Limits) -> None:
        while limits.shrink == "preempt" and len(self._running) > limits.active_cap:
            self._waiting.insert(0, self._running.pop())
        while self._waiting and len(self._running) < limits.active_cap:
            self._running.append(self._waiting.pop(0))


@contextmanager
def bare_engines(
    target: str, count: int, key: str, *, beat_s: float = BEAT_S
) -> Iterator[list[tuple[BareEngine, str]]]:
    """Started engines and where their control listeners are; stopped at the end."""
    engines = [BareEngine(target, f"r{number}") for number in range(count)]
    stop, wake = threading.Event(), threading.Event()
    beating = threading.Thread(target=_beat, args=(engines, stop, wake, beat_s), name="beat")
    listeners = Listeners(asyncio.new_event_loop(), max_connections=64, stop_grace_s=0.2)
    sockets = [bind("127.0.0.1", 0) for _ in engines]
    apps = [control_app(one.live, wake.set, key=key, apply_timeout_s=APPLY_S) for one in engines]
    beating.start()
    try:
        listeners.start(list(zip(apps, sockets, strict=True)))
        yield [(one, url_of(bound)) for one, bound in zip(engines, sockets, strict=True)]
    finally:
        listeners.stop_accepting()
        listeners.join(5.0)
        stop.set()
        wake.set()
        beating.join()


def _beat(
    engines: Sequence[BareEngine], stop: threading.Event, wake: threading.Event, beat_s: float
) -> None:
    while not stop.is_set():
        for engine in engines:
            engine.beat()
        wake.wait(beat_s)
        wake.clear()
