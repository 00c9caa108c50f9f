"""Ten times more than it can take, for a minute: what is acknowledged is there, the rest is 503.

What it can take for ever is what its slower stage can: the sustained rate is that of a burst until
all of it is in the features.

::

    offered 10x ─► ingest ─► 202: its number is noted        503 + Retry-After: not noted
                     │ memory sampled
                     ▼
                    bus ─► features        lag = the bus's end - the features' bus offset

Posts arrive at their own times and are sent if a connection is free; those that find none never
left this machine's sockets and are told apart. Every event names a request that nobody saw, so the
feature stage must end with one orphan per event: they are counted by id, on the bus and there.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from benchmarks.figures import Figures, say
from benchmarks.ingest.bodies import event_id_parts
from benchmarks.ingest.load import Report, Spec
from benchmarks.ingest.running import LoadProcess, load
from benchmarks.pipeline import Pipeline, Shape
from signals.bus.sqlite import SqliteBusReader
from signals.errors import Unavailable
from signals.features.reader import SqliteFeatures
from signals.ingest.inflight import memory_bound_bytes

TIMES = 10
EVENTS = 500
CONNECTIONS = 384
"""Of these ``ingest.max_connections`` have a place; the rest are answered 503 until one is free."""
SUSTAINED_CONNECTIONS = 8
SAMPLE_S = 0.25
DRAIN_S = 1_800.0
READ = 5_000
_ID = re.compile(rb'"id":"(evt-[^"]+)"')


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long to find the sustained rate, and how long to go beyond it."""

    sustained_s: float
    seconds: float


@dataclass
class Seen:
    """What was sampled while the load ran and until the lag was gone."""

    idle_bytes: int
    peak_bytes: int = 0
    lags: list[tuple[float, int]] = field(default_factory=list)

    @property
    def peak_lag(self) -> int:
        """The most events that the stage was ever behind."""
        return max((lag for _, lag in self.lags), default=0)


def measure(folder: Path, pace: Pace, seed: int, figures: Figures) -> bool:
    """Whether everything held; the figures are in ``figures.more``."""
    say(f"saturation: {TIMES} x the sustained rate for {pace.seconds:g} s, both processes running")
    with (
        Pipeline(folder / "saturated", Shape()) as pipeline,
        closing(SqliteFeatures(pipeline.layout.features_db)) as features,
        closing(SqliteBusReader(pipeline.layout.bus)) as bus,
    ):
        key = pipeline.key("shop", "business")
        pipeline.start("features")
        pipeline.start("ingest")
        pipeline.wait("ingest to be ready", pipeline.ingest_ready)
        pipeline.wait("the feature stage", lambda: features.bus_offset() >= 0)
        seen = Seen(idle_bytes=pipeline.rss_bytes("ingest"))
        spec = Spec(
            port=pipeline.port,
            key=key,
            mode="closed",
            events=EVENTS,
            connections=SUSTAINED_CONNECTIONS,
            seconds=pace.sustained_s,
            seed=seed,
        )
        began_s = time.monotonic()
        first = load(spec)
        while _sample(pipeline, bus, features, seen):
            pass
        rate = len(first.acknowledged) * EVENTS / (time.monotonic() - began_s)
        seen.lags.clear()
        flood = LoadProcess(_flood(spec, rate, pace))
        while flood.running():
            _sample(pipeline, bus, features, seen)
        report, ended_s = flood.report(), time.monotonic()
        while _sample(pipeline, bus, features, seen) and time.monotonic() < ended_s + DRAIN_S:
            pass
        drained_s = time.monotonic() - ended_s
        acknowledged = {*first.acknowledged, *report.acknowledged}
        on_bus = _count(_bus_ids(bus))
        counted = _count(_feature_ids(pipeline.layout.features_db))
        bound = seen.idle_bytes + memory_bound_bytes(pipeline.settings.ingest)
    faults = [
        *_missing("the bus", acknowledged, on_bus),
        *_missing("features", acknowledged, counted),
    ]
    faults += [f"{n} events are in features twice" for n in [_twice(counted)] if n]
    faults += _unlike(report, seen, bound)
    _tell(report, rate, seen, bound, drained_s, figures)
    for fault in faults:
        say(f"    FAULT: {fault}")
    figures.more["saturation"]["faults"] = faults
    return not faults


def _flood(spec: Spec, rate: float, pace: Pace) -> Spec:
    return replace(
        spec,
        mode="open",
        connections=CONNECTIONS,
        posts_per_s=TIMES * rate / EVENTS,
        seconds=pace.seconds,
        warm_s=0.0,
        queue=0,
        first=10_000_000,
    )


def _sample(pipeline: Pipeline, bus: SqliteBusReader, features: SqliteFeatures, seen: Seen) -> bool:
    """One look at memory and lag; whether the stage is behind."""
    time.sleep(SAMPLE_S)
    seen.peak_bytes = max(seen.peak_bytes, pipeline.rss_bytes("ingest"))
    try:
        lag = bus.end() - features.bus_offset()
    except Unavailable:
        return True
    seen.lags.append((time.monotonic(), lag))
    return lag > 0


def _bus_ids(bus: SqliteBusReader) -> Iterator[bytes]:
    after = 0
    while found := bus.read(after=after, limit=READ):
        after = found[-1].offset
        for entry in found:
            yield from _ID.findall(entry.body)


def _feature_ids(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
        for (signal,) in db.execute("SELECT signal FROM orphans"):
            yield from _ID.findall(signal.encode() if isinstance(signal, str) else signal)


def _count(ids: Iterable[bytes]) -> dict[int, Counter[int]]:
    """Post -> place -> how often."""
    found: dict[int, Counter[int]] = {}
    for each in ids:
        post, place = event_id_parts(each.decode())
        found.setdefault(post, Counter())[place] += 1
    return found


def _missing(where: str, acknowledged: set[int], found: dict[int, Counter[int]]) -> list[str]:
    lost = sum(EVENTS - len(found.get(post, ())) for post in acknowledged)
    return [f"{lost} acknowledged events are not in {where}"] if lost else []


def _twice(found: dict[int, Counter[int]]) -> int:
    return sum(n - 1 for places in found.values() for n in places.values())


def _unlike(report: Report, seen: Seen, bound: int) -> list[str]:
    """What should not have been answered, or held."""
    faults = [
        f"{n} posts were answered {code or 'with a broken connection'}"
        for code, n in report.statuses.items()
        if code not in (202, 503)
    ]
    if report.without_retry_after:
        faults.append(f"{report.without_retry_after} answers 503 had no Retry-After")
    if seen.peak_bytes > bound:
        faults.append(f"ingest held {seen.peak_bytes:,} bytes, the bound is {bound:,}")
    if not seen.lags or seen.lags[-1][1] > 0:
        faults.append(f"the lag is not gone: {seen.lags[-1:]}")
    return faults


def _tell(
    report: Report, rate: float, seen: Seen, bound: int, drained_s: float, figures: Figures
) -> None:
    accepted, refused = report.statuses.get(202, 0), report.statuses.get(503, 0)
    offered = report.attempted * EVENTS / report.elapsed_s
    taken = accepted * EVENTS / report.elapsed_s
    say(
        f"    sustained {rate:,.0f} events/s; wanted {TIMES * rate:,.0f}, offered {offered:,.0f} "
        f"(no free socket for {report.no_socket:,} posts)\n"
        f"    {accepted:,} posts acknowledged ({taken:,.0f} events/s), {refused:,} answered 503\n"
        f"    ingest's memory: idle {seen.idle_bytes / 1e6:.0f} MB, peak "
        f"{seen.peak_bytes / 1e6:.0f} MB, bound {bound / 1e6:.0f} MB\n"
        f"    features: at most {seen.peak_lag:,} behind, level {drained_s:.1f} s after the end"
    )
    figures.more["saturation"] = {
        "sustained_eps": round(rate),
        "offered_eps": round(offered),
        "acknowledged_eps": round(taken),
        "seconds": report.elapsed_s,
        "statuses": {str(code): n for code, n in report.statuses.items()},
        "no_socket_posts": report.no_socket,
        "idle_mb": round(seen.idle_bytes / 1e6),
        "peak_mb": round(seen.peak_bytes / 1e6),
        "bound_mb": round(bound / 1e6),
        "peak_lag_events": seen.peak_lag,
        "drained_s": round(drained_s, 1),
    }
