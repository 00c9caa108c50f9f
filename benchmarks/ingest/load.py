"""A load generator in a process of its own: ``python -m benchmarks.ingest.load`` < spec > report.

Keep-alive connections of its own on uvloop, bodies encoded before the start. It reports its own
processor time, so that a reader sees whether it was the bottleneck.

closed   each connection posts again as soon as it has its answer
open     posts arrive at their own (Poisson) times whatever the server does; the latency of each is
         from its arrival, waiting for a free connection included
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from random import Random
from typing import Literal

import msgspec
import uvloop
from msgspec import Struct

from benchmarks.ingest.bodies import as_request, business, numbered
from benchmarks.ingest.mix import Mix
from benchmarks.ingest.posting import Answer, Connection

DRAIN_S = 30.0


class Spec(Struct, frozen=True, kw_only=True):
    """What to post. ``first``: number of the first post, so that ids of other runs differ."""

    host: str = "127.0.0.1"
    port: int
    key: str
    mode: Literal["closed", "open"]
    shape: Literal["business", "single", "mix"] = "business"
    targets: tuple[str, ...] = ("chat",)
    events: int = 500
    connections: int = 8
    warm_s: float = 0.5
    seconds: float = 3.0
    posts_per_s: float = 0.0
    queue: int = 10_000
    first: int = 0
    seed: int = 1


class Report(Struct, frozen=True, kw_only=True):
    """What was measured between warm-up and end. Latencies in ms, of acknowledged posts only.

    ``attempted`` counts posts that were sent. ``no_socket``: arrivals that found every connection
    busy and the queue full, so they were never sent. ``refused``: posts some of whose events
    were refused, which is the load's fault. ``acknowledged``: numbers of every acknowledged post,
    warm-up included; ``shown``: (monotonic s of sending, events that a window will show) of each
    acknowledged post of shape ``mix``.
    """

    attempted: int
    statuses: dict[int, int]
    events: int
    elapsed_s: float
    cpu_s: float
    latencies_ms: list[float]
    no_socket: int
    broken: int
    refused: int
    without_retry_after: int
    acknowledged: list[int]
    shown: list[tuple[float, int]]


class Load:
    """One run."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._rng = Random(spec.seed)
        self._number = spec.first
        self._mix = (
            Mix(spec.targets[0], seed=spec.seed, sessions=False) if spec.shape == "mix" else None
        )
        self._request = self._encoded()
        self._free: deque[Connection] = deque()
        self._waiting: deque[float] = deque()
        self._busy = 0
        self._idle = asyncio.Event()
        self._began_s = float("inf")
        self._end_s = float("inf")
        self._statuses: Counter[int] = Counter()
        self._events = 0
        self._attempted = 0
        self._no_socket = 0
        self._broken = 0
        self._refused = 0
        self._without = 0
        self._latencies: list[float] = []
        self._acknowledged: list[int] = []
        self._shown: list[tuple[float, int]] = []

    async def run(self) -> Report:
        """Connect, warm up, measure, wait for the last answers."""
        spec = self._spec
        loop = asyncio.get_running_loop()
        for _ in range(spec.connections):
            connection = Connection(spec.host, spec.port, self._answered)
            await connection.open(loop)
            self._free.append(connection)
        start_s = time.monotonic()
        self._began_s, self._end_s = start_s + spec.warm_s, start_s + spec.warm_s + spec.seconds
        cpu_s = time.process_time()
        if spec.mode == "closed":
            for connection in list(self._free):
                self._send(connection, time.monotonic())
            self._free.clear()
            await asyncio.sleep(self._end_s - time.monotonic())
        else:
            await self._arrivals(start_s)
        cpu_s = time.process_time() - cpu_s
        await self._drain()
        return self._report(cpu_s)

    async def _arrivals(self, start_s: float) -> None:
        """Poisson arrivals until the end."""
        due_s = start_s
        while due_s < self._end_s:
            now_s = time.monotonic()
            while due_s <= now_s and due_s < self._end_s:
                self._arrive(due_s)
                due_s += self._rng.expovariate(self._spec.posts_per_s)
            await asyncio.sleep(max(0.0, min(due_s, self._end_s) - time.monotonic()))

    def _arrive(self, due_s: float) -> None:
        if self._free:
            self._send(self._free.popleft(), due_s)
        elif len(self._waiting) < self._spec.queue:
            self._waiting.append(due_s)
        else:
            self._no_socket += due_s >= self._began_s

    def _send(self, connection: Connection, due_s: float) -> None:
        number, shows = self._number, 0
        self._number += 1
        if self._mix is not None:
            body, shows = self._mix.post(self._spec.events, time.time_ns() // 1000)
            media = "application/x-ndjson"
            request = as_request(body, host=self._spec.host, key=self._spec.key, media=media)
        else:
            request = numbered(self._request, number)
        self._busy += 1
        self._attempted += self._began_s <= due_s < self._end_s
        connection.send(request, number=number, due_s=due_s, shows=shows)

    def _answered(self, connection: Connection, answer: Answer) -> None:
        now_s = time.monotonic()
        self._refused += answer.refused
        self._busy -= 1
        if not self._busy:
            self._idle.set()
        if answer.status == 202:
            self._acknowledged.append(answer.number)
            if answer.shows:
                self._shown.append((answer.sent_s, answer.shows))
        if self._began_s <= answer.due_s < self._end_s:
            self._count(answer, now_s)
        if now_s >= self._end_s and not self._waiting:
            self._free.append(connection)
        elif self._spec.mode == "closed":
            self._send(connection, now_s)
        elif self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._free.append(connection)

    def _count(self, answer: Answer, now_s: float) -> None:
        self._statuses[answer.status] += 1
        self._broken += answer.status == 0
        self._without += answer.status == 503 and not answer.retry_after
        if answer.status == 202:
            self._latencies.append(1000 * (now_s - answer.due_s))
            if now_s < self._end_s:
                self._events += 1 if self._spec.shape == "single" else self._spec.events

    async def _drain(self) -> None:
        self._idle.clear()
        if self._busy:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), DRAIN_S)

    def _encoded(self) -> bytes:
        spec = self._spec
        media = "application/json" if spec.shape == "single" else "application/x-ndjson"
        body = business(
            1 if spec.shape == "single" else spec.events,
            targets=spec.targets,
            now_us=time.time_ns() // 1000,
            seed=spec.seed,
        )
        return as_request(body, host=spec.host, key=spec.key, media=media)

    def _report(self, cpu_s: float) -> Report:
        spec = self._spec
        return Report(
            attempted=self._attempted,
            statuses=dict(self._statuses),
            events=self._events,
            elapsed_s=spec.seconds,
            cpu_s=cpu_s * spec.seconds / (spec.seconds + spec.warm_s),
            latencies_ms=self._latencies,
            no_socket=self._no_socket,
            broken=self._broken,
            refused=self._refused,
            without_retry_after=self._without,
            acknowledged=self._acknowledged,
            shown=self._shown,
        )


def main() -> None:
    """Read a ``Spec`` as JSON, print a ``Report`` as JSON."""
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(Load(spec).run())))


if __name__ == "__main__":
    main()
