"""A simulated engine that lives in real time, for what must talk to one over the network.

The same scheduler and step times, but each step takes its time on the clock, and the settings are
those of a real engine: ``LiveSettings``, with patches that wait for a step boundary. It makes no
tokens and sends no telemetry; of a request it tells how it went.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from engine.generation import CLASSES, Load, QueueFull
from engine.live_settings import LiveSettings
from engine.settings_in_force import EngineIdentity, Instant
from engine.simulated.offered import Offered
from engine.simulated.prefix_cache import PrefixCache
from engine.simulated.scheduler import Scheduler
from engine.simulated.spec import PREFIX_RETENTION, ReplicaSpec
from engine.simulated.visit import Visit
from policies.runtime_config import Stamp
from signals.errors import Rejected
from signals.events import MICROS

IDLE_S = 0.05
MAX_PENDING = 64
REMEMBERED = 256


class Stay:
    """One offered request; ``done`` is set when it has all its tokens."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.done = threading.Event()


class Unobserved:
    """A ``LoadObserver`` for an engine that sends no telemetry."""

    def arrived(self, intent: str, offered_tokens: int) -> None:
        """Nothing is counted."""

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        """Nothing is counted."""


class PacedEngine:
    """See the module. ``step`` is for one thread; all else is safe from any."""

    def __init__(
        self,
        identity: EngineIdentity,
        spec: ReplicaSpec,
        *,
        max_pending: int = MAX_PENDING,
        remembered: int = REMEMBERED,
    ) -> None:
        self.live = LiveSettings(
            identity,
            spec.knobs(),
            CLASSES,
            Unobserved(),
            max_pending=max_pending,
            remembered=remembered,
        )
        self.running = 0
        self._spec = spec
        cache = PrefixCache(spec.capacity_retention) if spec.capacity_retention else None
        self._lines = Scheduler(
            capacity=spec.kv_blocks, block_tokens=spec.block_tokens, cache=cache
        )
        self._lock = threading.Lock()
        self._inbox: list[Stay] = []
        self._stays: dict[int, Stay] = {}
        self._offered = self._waits = 0
        self._stop, self._woken = threading.Event(), threading.Event()

    def offer(self, offered: Offered) -> Stay:
        """A request that comes now, whatever its ``arrival_s``.

        Raises ``Rejected`` for one that can never fit the KV pool, ``QueueFull`` when as many wait
        as may.
        """
        tokens = offered.prompt_tokens + offered.output_tokens
        if not self._lines.fits(tokens):
            raise Rejected("more tokens than the KV pool has", field="prompt_tokens", value=tokens)
        with self._lock:
            if self._waits + len(self._inbox) >= self._spec.max_queue:
                raise QueueFull(f"{self._spec.max_queue} requests are waiting already")
            arrival = self.live.arrive(
                offered.intent,
                offered.class_,
                prompt_tokens=offered.prompt_tokens,
                max_tokens=offered.output_tokens,
                session=offered.session,
            )
            visit = Visit(self._offered, offered, round(arrival.at.mono_s * MICROS))
            visit.stamp = arrival.stamp
            visit.bound(arrival.max_tokens)
            self._offered += 1
            stay = Stay(visit)
            self._inbox.append(stay)
        self.wake()
        return stay

    def wake(self) -> None:
        """Make an idle engine reach its next boundary now."""
        self._woken.set()

    def stop(self) -> None:
        """End ``run`` after the present step."""
        self._stop.set()
        self.wake()

    def run(self) -> None:
        """Step until told to stop."""
        while not self._stop.is_set():
            self.step()

    def step(self) -> None:
        """One boundary, and one step or a short rest."""
        lines = self._lines
        self._take_in()
        load = self._load()
        limits = self.live.boundary(load)
        self.running = len(lines.running)
        if lines.cache is not None:
            lines.cache.retention = self.live.values[PREFIX_RETENTION]
            lines.trim()
        lines.admit(limits, 0.0)
        if not lines.running:
            self._woken.wait(IDLE_S)
            self._woken.clear()
            return
        step = lines.plan(limits.step_token_budget)
        took_us = self._spec.step_times.step_us(
            decode=step.decode, prefill=step.prefill, context=step.context
        )
        self._stop.wait(took_us / MICROS)
        for visit in lines.commit()[1]:
            self._stays.pop(visit.number).done.set()

    def _take_in(self) -> None:
        with self._lock:
            for stay in self._inbox:
                self._stays[stay.visit.number] = stay
                self._lines.enqueue(stay.visit)
            self._inbox.clear()
            self._waits = self._lines.waits

    def _load(self) -> Load:
        lines = self._lines
        return Load(
            waiting=dict(lines.waits_of),
            running=dict(Counter(visit.intent for visit in lines.running.values())),
            kv_blocks_used=lines.used,
            kv_blocks_total=lines.capacity,
        )
