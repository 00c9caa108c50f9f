"""The settings book of a running engine, shared between the control API and the engine's thread.

::

    control API ── submit(patch) ─► [pending] ─┐                     ┌─► Future: the applied answer
    chat API ── arrive(...) ─► its arm         ▼ boundary(load), on  │
                                    pass time ► apply pending ► let laws look ► limits of the step
                                               the engine's thread

One lock guards the book and the arrival meter, so a stamp and the arrival counted under it always
belong together. It is held for microseconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from msgspec import Struct

from engine.generation import Limits, Load
from engine.knobs import ACTIVE_CAP, ANSWER_TOKENS, STEP_TOKEN_BUDGET
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_checks import check_patch
from engine.settings_in_force import EngineIdentity, Instant
from policies.knobs import KnobSpec
from policies.runtime_config import Patch, RuntimeConfig, Stamp
from signals.errors import Rejected, Unavailable
from signals.events import MICROS
from signals.ids import RANDOM_BYTES, uuid7

Clock = Callable[[], Instant]


class Arrival(Struct, frozen=True, kw_only=True):
    """A request that arrived: its id, the stamp it belongs to for ever, when it came, and the most
    tokens that its answer may have."""

    id: str
    stamp: Stamp
    at: Instant
    max_tokens: int


def system_clock() -> Instant:
    """Now, on the machine's clocks."""
    return Instant(mono_s=time.monotonic(), wall_s=time.time())


class LoadObserver(Protocol):
    """Who aggregates what happens under one stamp. Called with the lock held: be quick."""

    def arrived(self, intent: str, offered_tokens: int) -> None:
        """A request arrived under the stamp in force."""

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        """A boundary was reached. ``values`` are those in force until now, under ``before``."""


class LiveSettings:
    """See the module. Thread-safe; ``boundary`` is for the engine's thread alone."""

    def __init__(
        self,
        identity: EngineIdentity,
        knobs: Sequence[KnobSpec],
        classes: Sequence[str],
        observer: LoadObserver,
        *,
        max_pending: int,
        remembered: int,
        clock: Clock = system_clock,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._meter = ArrivalMeter(classes)
        self._book = SettingsBook(
            identity, knobs, self._meter, classes, remembered=remembered, now=clock()
        )
        self._observer = observer
        self._pending: deque[tuple[Patch, Future[RuntimeConfig]]] = deque()
        self._max_pending = max_pending
        self._running = 0

    @property
    def stamp(self) -> Stamp:
        """The settings in force."""
        return self._book.stamp

    @property
    def values(self) -> dict[str, int]:
        """The number in force of every knob."""
        with self._lock:
            return self._book.values()

    def arrive(
        self,
        intent: str,
        class_: str,
        *,
        prompt_tokens: int,
        max_tokens: int,
        session: str | None = None,
    ) -> Arrival:
        """Count one arriving request, and put it where its session belongs.

        ``max_tokens``: what the client asked for, which the engine's own bound may lower.
        """
        random = os.urandom(RANDOM_BYTES)
        with self._lock:
            now = self._clock()
            known = f"{self._book.stamp.target}.{uuid7(round(now.wall_s * MICROS), random)}"
            arm = self._book.arriving.of(known if session is None else session)
            bound = arm.value(ANSWER_TOKENS, intent)
            most = max_tokens if bound is None else min(max_tokens, bound)
            self._meter.note(class_, tokens=prompt_tokens + most, now_s=now.mono_s)
            self._observer.arrived(intent, prompt_tokens + most)
            return Arrival(id=known, stamp=arm.stamp, at=now, max_tokens=most)

    def read(self, *, after_seq: int = -1) -> RuntimeConfig:
        """What is in force now, and the changes numbered above ``after_seq``."""
        with self._lock:
            return self._book.view(self._clock(), after_seq=after_seq, running=self._running)

    def submit(self, patch: Patch) -> Future[RuntimeConfig]:
        """Queue a patch for the next boundary; wake the engine after this.

        The future fails with ``Rejected`` or ``Conflict`` when the book refuses it there. Raises
        ``Rejected`` at once for what can never be applied, ``Unavailable`` when too many wait. A
        cancelled future that was not reached yet is never applied.
        """
        answer: Future[RuntimeConfig] = Future()
        with self._lock:
            check_patch(patch, self._book.specs, self._meter.classes)
            if len(self._pending) >= self._max_pending:
                raise Unavailable(f"{self._max_pending} patches already wait for a step boundary")
            self._pending.append((patch, answer))
        return answer

    def boundary(self, load: Load) -> Limits:
        """Apply what is due and what is pending; the limits of the next step."""
        settled: list[tuple[Future[RuntimeConfig], RuntimeConfig | Rejected]] = []
        with self._lock:
            now = self._clock()
            self._running = sum(load.running.values())
            before, values = self._book.stamp, self._book.values()
            self._book.pass_time(now)
            while self._pending:
                patch, future = self._pending.popleft()
                if future.set_running_or_notify_cancel():
                    settled.append((future, self._applied(patch, now)))
            self._observer.passed(before, self._book.stamp, load, values, now)
            limits = self._limits()
        for future, answer in settled:
            if isinstance(answer, RuntimeConfig):
                future.set_result(answer)
            else:
                future.set_exception(answer)
        return limits

    def _applied(self, patch: Patch, now: Instant) -> RuntimeConfig | Rejected:
        try:
            return self._book.apply(patch, now, running=self._running)
        except Rejected as refused:
            return refused

    def _limits(self) -> Limits:
        cap = self._book.setting(ACTIVE_CAP)
        budget = self._book.setting(STEP_TOKEN_BUDGET)
        return Limits(active_cap=cap.observed, step_token_budget=budget.observed, shrink=cap.shrink)
