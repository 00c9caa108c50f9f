"""The feature stage: events per second of one core, and what an event costs after a long history.

A bus is filled in this process, and the real feature process reads it: what it costs is that
process's own processor time, user and system, from the first of a stretch's offsets to the last.
A short and a long history are measured in turns: stretch here, stretch there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.figures import Figures, median, say
from benchmarks.ingest.mix import WORDS, Mix
from benchmarks.pipeline import Pipeline, Shape
from signals.bus.port import Message
from signals.bus.sqlite import SqliteBus
from signals.codec import encode
from signals.events import MICROS
from signals.features.reader import SqliteFeatures

TARGET = "chat"
EVENTS_PER_S = 1_000
"""Event time of the made-up traffic: history is long in rows, not thin in time."""
APPEND = 1_000
IN_MEMORY = 200_000
AHEAD = 8
POLL_S = 0.005
LIMIT_S = 1_800.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How much."""

    history: int
    times: int
    stretch: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one stretch."""

    events: int
    cpu_s: float
    wall_s: float

    @property
    def cpu_us(self) -> float:
        """Processor time of one event."""
        return 1e6 * self.cpu_s / self.events

    @property
    def per_core(self) -> float:
        """Events in one second of processor time."""
        return self.events / self.cpu_s


class Stage:
    """A feature process of its own, and a bus that only we write."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._open = ExitStack()
        self._pipeline = self._open.enter_context(Pipeline(folder, Shape(targets=(TARGET,))))
        layout = self._pipeline.layout
        self._bus = self._open.enter_context(closing(SqliteBus(layout.bus)))
        self._features = self._open.enter_context(closing(SqliteFeatures(layout.features_db)))
        self._now_us = time.time_ns() // 1000 - 3600 * MICROS
        self._mix = Mix(TARGET, seed=seed, since_us=self._now_us)
        self._rest = self._messages()
        self._appended = 0
        self._pipeline.start("features")

    def close(self) -> None:
        """Kill the process, drop the bus."""
        self._open.close()

    def take(self, events: int) -> Cost:
        """Append so many and wait until the stage has them behind it."""
        self._pipeline.wait("the feature stage", self._behind)
        batches = self._batches(events)
        cpu_s, began_s = self._pipeline.cpu_s("features"), time.perf_counter()
        self._append(batches)
        self._appended += events
        deadline_s = time.monotonic() + LIMIT_S
        while not self._behind():
            if time.monotonic() > deadline_s or not self._pipeline.alive("features"):
                raise TimeoutError(f"the stage did not get there\n{self._pipeline.tails()}")
            time.sleep(POLL_S)
        return Cost(
            events=events,
            cpu_s=self._pipeline.cpu_s("features") - cpu_s,
            wall_s=time.perf_counter() - began_s,
        )

    def _batches(self, events: int) -> Iterable[list[Message]]:
        """A stretch is made before it is appended, so that the stage has full batches to read;
        a long history as it goes, for it does not fit in memory."""
        made = (
            list(islice(self._rest, min(APPEND, events - start)))
            for start in range(0, events, APPEND)
        )
        return list(made) if events <= IN_MEMORY else made

    def _append(self, batches: Iterable[list[Message]]) -> None:
        waiting: list[Future[None]] = []
        for batch in batches:
            waiting.append(self._bus.append(batch))
            if len(waiting) >= AHEAD:
                waiting.pop(0).result()
        for one in waiting:
            one.result()

    def _messages(self) -> Iterator[Message]:
        per_request_us = 3 * MICROS // EVENTS_PER_S
        while True:
            self._now_us += per_request_us
            for signal in self._mix.signals(self._now_us):
                yield Message(
                    key=signal.target,
                    body=encode(signal),
                    producer=signal.producer,
                    accepted_us=signal.time_us,
                )

    def _behind(self) -> bool:
        return self._features.bus_offset() >= self._appended


def measure(folder: Path, pace: Pace, seed: int, figures: Figures) -> bool:
    """True; step_eps_core, cost_growth_100x."""
    long = pace.history * pace.times
    say(f"feature stage on SQLite, filled bus; {WORDS}")
    say(f"    history {pace.history:,} and {long:,} events, then stretches of {pace.stretch:,}")
    old = Stage(folder / "old", seed)
    try:
        history = old.take(long)
        say(
            f"    the long history itself: {history.wall_s:.0f} s, "
            f"{history.per_core:,.0f} events per core second"
        )
        pairs = [_pair(folder / f"young-{n}", old, pace, seed + n) for n in range(pace.repeats)]
    finally:
        old.close()
    young = median([short.cpu_us for short, _ in pairs])
    grown = median([after.cpu_us for _, after in pairs])
    per_core = median([short.per_core for short, _ in pairs])
    wall = median([short.events / short.wall_s for short, _ in pairs])
    say(f"    {young:.1f} µs an event at {pace.history:,}, {grown:.1f} µs at {long:,}")
    say(f"    {per_core:,.0f} events per core second; {wall:,.0f} per second of the clock")
    figures.key("step_eps_core", per_core)
    figures.key("cost_growth_100x", grown / young)
    figures.more["stage"] = {
        "mix": WORDS,
        "history": [pace.history, long],
        "stretch": pace.stretch,
        "cpu_us_short": [round(short.cpu_us, 2) for short, _ in pairs],
        "cpu_us_long": [round(after.cpu_us, 2) for _, after in pairs],
        "wall_eps": round(wall),
        "wall_eps_long": round(median([after.events / after.wall_s for _, after in pairs])),
        "per_core_over_long_history": round(history.per_core),
    }
    return True


def _pair(folder: Path, old: Stage, pace: Pace, seed: int) -> tuple[Cost, Cost]:
    """One stretch after a short history of its own, and one after the long one."""
    young = Stage(folder, seed)
    try:
        young.take(pace.history)
        return young.take(pace.stretch), old.take(pace.stretch)
    finally:
        young.close()
