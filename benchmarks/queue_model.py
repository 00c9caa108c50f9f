"""A simulated engine for the judge's campaign: continuous batching, step by step, no tokens.

A step over b running sequences takes ``factor · (base + c·b)`` and gives each of them one token.
Chats come first, then batch jobs, up to the cap. Batch jobs are a flood: so many are always
outstanding. Chats arrive by a Poisson process whose rate wanders: its logarithm is an AR(1) process
of one-second steps, so the load has bursts and lulls that last for minutes, as real load has.

Why not the real engine: a campaign is thousands of trials of up to an hour each.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
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
    """One request; None: not yet. Times in µs since the path began; ``good`` when it finished."""

    intent: str
    tokens: int
    arrival_us: int
    first_us: int | None = None
    finished_us: int | None = None
    good: bool | None = None

    def finish(self, now_us: int) -> None:
        """It got its last token."""
        self.finished_us = now_us
        first_us = now_us if self.first_us is None else self.first_us
        self.good = SLOS[self.intent].met(
            ttft_us=first_us - self.arrival_us,
            tpot_us=(now_us - first_us) // (self.tokens - 1),
            e2e_us=now_us - self.arrival_us,
        )

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
        first_us, finished_us = self.first_us, self.finished_us
        ttft_us = None if first_us is None else first_us - self.arrival_us
        tpot_us = None
        if first_us is not None and finished_us is not None:
            tpot_us = (finished_us - first_us) // (self.tokens - 1)
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
            finished_us=finished_us,
            status=None if finished_us is None else "ok",
            prompt_tokens=0,
            output_tokens=self.tokens,
            max_tokens=self.tokens,
            queue_us=None,
            ttft_us=ttft_us,
            tpot_us=tpot_us,
            good=False if finished_us is None and now_us > self.deadline_us else self.good,
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
        return None if self.good else min(self.finished_us, self.deadline_us)


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
        self._last_chat_us = -(10**12)
        self._live: deque[Request] = deque()
        self._batch: deque[Request] = deque()
        self._ending: dict[int, list[Request]] = {}
        self._running = self._live_running = self._step = self._now_us = 0
        self._live_tokens = self._batch_tokens = 0
        self._second_us = MICROS
        for _ in range(self.world.flood):
            self._flood(0)

    def run(self, until_us: int, *, factor: float = 1.0, law: CapLaw | None = None) -> None:
        """Go on until a time, with step times multiplied by ``factor`` from now on.

        ``law`` None: the cap is the world's. A cap that falls drains: nobody is put out.
        """
        cap = self.world.cap
        took_us = self._steps_us(factor, cap if law is None else max(cap, law.idle, law.busy))
        live, batch, ending = self._live, self._batch, self._ending
        now_us, step = self._now_us, self._step
        while now_us < until_us:
            if self._next.arrival_us <= now_us:
                self._take_in(now_us)
            if law is not None:
                busy = now_us - self._last_chat_us <= law.window_s * MICROS
                cap = law.busy if busy else law.idle
            fresh = self._admit(cap, step) if (live or batch) and self._running < cap else ()
            now_us += took_us[self._running]
            step += 1
            self._live_tokens += self._live_running
            self._batch_tokens += self._running - self._live_running
            for request in fresh:
                request.first_us = now_us
            if step in ending:
                self._finish(ending.pop(step), now_us)
            if now_us >= self._second_us:
                self._tell_second(now_us)
        self._now_us, self._step = now_us, step

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

    def _steps_us(self, factor: float, largest: int) -> list[int]:
        """How long a step takes, by how many it runs."""
        world, sizes = self.world, range(max(self._running, largest) + 1)
        return [
            round(factor * (world.base_ms + world.per_sequence_ms * size) * 1000) for size in sizes
        ]

    def _take_in(self, now_us: int) -> None:
        """The chats that have come by now."""
        while self._next.arrival_us <= now_us:
            self.requests.append(self._next)
            self._live.append(self._next)
            self._last_chat_us = self._next.arrival_us
            self._next = next(self._chats)

    def _flood(self, now_us: int) -> None:
        """One more batch job."""
        request = Request(BATCH, BATCH_TOKENS, now_us)
        self.requests.append(request)
        self._batch.append(request)

    def _admit(self, cap: int, step: int) -> list[Request]:
        """Those that run from this step on, chats before jobs."""
        fresh = []
        for queue in (self._live, self._batch):
            while queue and self._running < cap:
                request = queue.popleft()
                self._ending.setdefault(step + request.tokens, []).append(request)
                self._running += 1
                self._live_running += request.intent == LIVE
                fresh.append(request)
        return fresh

    def _finish(self, ended: Sequence[Request], now_us: int) -> None:
        for request in ended:
            request.finish(now_us)
            self._running -= 1
            if request.intent == LIVE:
                self._live_running -= 1
            else:
                self._flood(now_us)

    def _tell_second(self, to_us: int) -> None:
        """The second that has just ended, from the step that ended the one before."""
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
                output_tokens={LIVE: self._live_tokens, BATCH: self._batch_tokens},
                arrivals={},
                offered_tokens={},
                waiting={LIVE: len(self._live), BATCH: len(self._batch)},
                steps=StepMoments(),
                knobs={},
            )
        )
        self._live_tokens = self._batch_tokens = 0
        self._second_us = (to_us // MICROS + 1) * MICROS


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
        lengths = rng.integers(LIVE_TOKENS[0], LIVE_TOKENS[1] + 1, len(moments))
        arrivals_us = np.rint((second + moments) * MICROS).astype(int)
        for arrival_us, tokens in zip(arrivals_us.tolist(), lengths.tolist(), strict=True):
            yield Request(LIVE, tokens, arrival_us)
