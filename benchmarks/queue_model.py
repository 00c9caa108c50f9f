"""A simulated engine for the judge's campaign: continuous batching, step by step, no tokens.

A step over b running sequences takes ``factor · (base + c·b)`` and gives each of them one token.
Chats come first, then batch jobs, up to the cap. Batch jobs are a flood: so many are always
outstanding. Chats arrive by a Poisson process whose rate wanders: its logarithm is an AR(1) process
of one-second steps, so the load has bursts and lulls that last for minutes, as real load has.

Why not the real engine: a campaign is thousands of trials of up to an hour each.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from signals.events import MICROS, Arm, StepMoments
from signals.features.model import RequestRow, SecondRow
from signals.settings import Slo

LIVE, BATCH = "live", "batch"
SLOS = {LIVE: Slo(ttft_ms=1000, tpot_ms=50, attainment=0.97), BATCH: Slo(e2e_ms=5000)}
DEADLINES_US = {LIVE: 3 * MICROS, BATCH: 5 * MICROS}
"""Unfinished so long after it arrived, a request has missed: SLOs and the longest answer say so."""
BATCH_TOKENS = 16
LIVE_TOKENS = (8, 40)
"""Fewest and most tokens of a chat's answer; all lengths in between are equally likely."""


@dataclass(frozen=True, kw_only=True)
class World:
    """An engine and its load. ``load_sd`` is that of the log rate, ``memory`` its lag-1 s AR.

    ``phase_s``: chats come for so long, then none for as long, and so on; None: always.
    """

    name: str
    chats_per_s: float
    load_sd: float
    memory: float = 0.99
    cap: int = 16
    base_ms: float = 18.1
    per_sequence_ms: float = 1.29
    flood: int = 64
    phase_s: float | None = None


@dataclass(slots=True)
class Request:
    """One request; None: not yet. Times in µs since the path began."""

    intent: str
    tokens: int
    arrival_us: int
    first_us: int | None = None
    finished_us: int | None = None

    def row(
        self,
        trial: str,
        block: int,
        *,
        replica: str = "chat-0",
        arm: Arm | None = None,
        now_us: int = 0,
    ) -> RequestRow:
        """The row that the feature stage would have made of it by ``now_us``."""
        ttft_us, tpot_us = self._times()
        return RequestRow(
            request_id=f"{self.intent}.{self.arrival_us}",
            target="chat",
            replica=replica,
            incarnation="model",
            version=1,
            digest="",
            policies=(),
            trial=trial,
            block=block,
            arm=arm,
            intent=self.intent,
            class_="interactive" if self.intent == LIVE else "batch",
            arrival_us=self.arrival_us,
            deadline_us=self.deadline_us,
            finished_us=self.finished_us,
            status=None if self.finished_us is None else "ok",
            prompt_tokens=0,
            output_tokens=self.tokens,
            max_tokens=self.tokens,
            queue_us=None,
            ttft_us=ttft_us,
            tpot_us=tpot_us,
            good=self._good(ttft_us, tpot_us, now_us),
            preemptions=0,
            error=None,
            external_id=None,
            session_id=None,
        )

    @property
    def deadline_us(self) -> int:
        """Unfinished then, it has missed."""
        return self.arrival_us + DEADLINES_US[self.intent]

    @property
    def missed_us(self) -> int | None:
        """When it missed: its end, if it was not good, or its deadline, whichever came first.

        None: it ended good. A moment that lies ahead is one that it may still avert.
        """
        if self.finished_us is None:
            return self.deadline_us
        if self._good(*self._times(), self.finished_us):
            return None
        return min(self.finished_us, self.deadline_us)

    def _times(self) -> tuple[int | None, int | None]:
        if self.first_us is None:
            return None, None
        ttft_us = self.first_us - self.arrival_us
        if self.finished_us is None:
            return ttft_us, None
        return ttft_us, (self.finished_us - self.first_us) // (self.tokens - 1)

    def _good(self, ttft_us: int | None, tpot_us: int | None, now_us: int) -> bool | None:
        if self.finished_us is None:
            return False if now_us > self.deadline_us else None
        e2e_us = self.finished_us - self.arrival_us
        return SLOS[self.intent].met(ttft_us=ttft_us, tpot_us=tpot_us, e2e_us=e2e_us)


@dataclass(frozen=True, kw_only=True)
class CapLaw:
    """A law for the cap: ``busy`` while a chat arrived in the last ``window_s``, else ``idle``."""

    idle: int
    busy: int
    window_s: float = 2.0


@dataclass
class QueueModel:
    """One engine's life. The load depends on ``seed`` alone, never on what the engine does.

    ``arrivals``: the chats that come, where they are not to be made of the world and the seed.
    """

    world: World
    seed: int
    arrivals: Iterator[Request] | None = None
    requests: list[Request] = field(default_factory=list)
    seconds: list[SecondRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chats = self.arrivals or chats(self.world, np.random.default_rng(self.seed))
        self._next = next(self._chats)
        self._cap = self.world.cap
        self._last_chat_us = -(10**12)
        self._waiting: dict[str, deque[Request]] = {LIVE: deque(), BATCH: deque()}
        self._running: list[tuple[int, int, Request]] = []
        self._fresh: list[Request] = []
        self._live_running = self._step = self._now_us = self._counted = 0
        self._tokens = {LIVE: 0, BATCH: 0}
        for _ in range(self.world.flood):
            self._arrive(Request(BATCH, BATCH_TOKENS, 0))

    def run(self, until_us: int, *, factor: float = 1.0, law: CapLaw | None = None) -> None:
        """Go on until a time, with step times multiplied by ``factor`` from now on.

        ``law`` None: the cap is the world's. A cap that falls drains: nobody is put out.
        """
        while self._now_us < until_us:
            while self._next.arrival_us <= self._now_us:
                self._arrive(self._next)
                self._last_chat_us = self._next.arrival_us
                self._next = next(self._chats)
            if law is not None:
                busy = self._now_us - self._last_chat_us <= law.window_s * MICROS
                self._cap = law.busy if busy else law.idle
            else:
                self._cap = self.world.cap
            self._admit()
            self._take_step(factor)

    def arrived(self, from_us: int, to_us: int) -> list[Request]:
        """Requests that arrived in (from, to], by arrival."""
        low, high = (
            bisect_right(self.requests, at, key=lambda request: request.arrival_us)
            for at in (from_us, to_us)
        )
        return self.requests[low:high]

    def between(self, from_us: int, to_us: int) -> list[SecondRow]:
        """Seconds that ended in (from, to]."""
        low, high = (
            bisect_right(self.seconds, at, key=lambda second: second.to_us)
            for at in (from_us, to_us)
        )
        return self.seconds[low:high]

    def _arrive(self, request: Request) -> None:
        self.requests.append(request)
        self._waiting[request.intent].append(request)

    def _admit(self) -> None:
        for queue in self._waiting.values():
            while queue and len(self._running) < self._cap:
                request = queue.popleft()
                self._counted += 1
                ends = self._step + request.tokens
                heapq.heappush(self._running, (ends, self._counted, request))
                self._live_running += request.intent == LIVE
                self._fresh.append(request)

    def _take_step(self, factor: float) -> None:
        size = len(self._running)
        world = self.world
        took_ms = factor * (world.base_ms + world.per_sequence_ms * size)
        before_us = self._now_us
        self._now_us += round(took_ms * 1000)
        self._step += 1
        self._tokens[LIVE] += self._live_running
        self._tokens[BATCH] += size - self._live_running
        for request in self._fresh:
            request.first_us = self._now_us
        self._fresh.clear()
        self._finish()
        if before_us // MICROS != self._now_us // MICROS:
            self._tell_second()

    def _finish(self) -> None:
        while self._running and self._running[0][0] <= self._step:
            request = heapq.heappop(self._running)[2]
            request.finished_us = self._now_us
            self._live_running -= request.intent == LIVE
            if request.intent == BATCH:
                self._arrive(Request(BATCH, BATCH_TOKENS, self._now_us))

    def _tell_second(self) -> None:
        to_us = self._now_us
        from_us = self.seconds[-1].to_us if self.seconds else 0
        self.seconds.append(
            SecondRow(
                target="chat",
                replica="chat-0",
                incarnation="model",
                from_us=from_us,
                to_us=to_us,
                digest="",
                trial="",
                block=-1,
                arm=None,
                output_tokens=dict(self._tokens),
                arrivals={},
                offered_tokens={},
                waiting={intent: len(queue) for intent, queue in self._waiting.items()},
                steps=StepMoments(),
                knobs={},
            )
        )
        self._tokens = {LIVE: 0, BATCH: 0}


def chats(world: World, rng: np.random.Generator) -> Iterator[Request]:
    """Chats without end, by arrival."""
    level = rng.normal(0.0, world.load_sd)
    drift = world.load_sd * math.sqrt(1 - world.memory**2)
    for second in range(10**9):
        level = world.memory * level + rng.normal(0.0, drift)
        if world.phase_s is not None and second // world.phase_s % 2:
            continue
        rate = world.chats_per_s * math.exp(level - world.load_sd**2 / 2)
        moments = np.sort(rng.random(rng.poisson(rate)))
        for moment in moments:
            tokens = int(rng.integers(LIVE_TOKENS[0], LIVE_TOKENS[1] + 1))
            yield Request(LIVE, tokens, round((second + float(moment)) * MICROS))
