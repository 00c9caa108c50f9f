"""Acknowledged events per second through HTTP, beside the bare log and the bare Kafka client.

Ingest alone: no feature stage runs beside it. Rivals and ingest take turns, so that whatever else
the machine does in these seconds hits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks import broker
from benchmarks.broker import Broker
from benchmarks.figures import Figures, median, percentile, say, spread
from benchmarks.ingest.bodies import business, numbered
from benchmarks.ingest.load import Report, Spec
from benchmarks.ingest.rivals import (
    COMPRESSIONS,
    KAFKA_BATCH_BYTES,
    LINGERS_MS,
    SQLITE_BATCHES,
    BareProducer,
    Run,
    best,
    raw_sqlite,
)
from benchmarks.ingest.running import load
from benchmarks.pipeline import Pipeline, Shape

TARGETS = ("chat", "code", "docs", "mail")
"""Spread over the partitions of a topic; the SQLite bus has one."""
PARTITIONS = 4
EVENTS = 500
BATCH_CONNECTIONS = 8
OPEN_CONNECTIONS = 32
SINGLE_CONNECTIONS = 64
AIMED_EPS = 50_000
"""Acknowledgements are timed at half of this too, beside half of what this machine can take."""
POSTS_APART = 1_000_000
"""Between the numbers of two runs, so that no id comes twice."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long and how often."""

    seconds: float
    sweep_s: float
    repeats: int


class Served:
    """A running ingest, and runs of load on it."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self.pipeline = pipeline
        self._seed = seed
        self._runs = 0
        self._key = pipeline.key("shop", "business")
        pipeline.start("ingest")
        pipeline.wait("ingest to be ready", pipeline.ingest_ready)

    def batched(self, pace: Pace, *, posts_per_s: float = 0.0) -> Report:
        """NDJSON of 500: as fast as it goes, or at a rate that does not wait for answers."""
        spec = self._spec(pace)
        if posts_per_s:
            many = OPEN_CONNECTIONS
            spec = replace(spec, mode="open", connections=many, posts_per_s=posts_per_s)
        return self._run(spec)

    def single(self, pace: Pace) -> Report:
        """One event a request."""
        return self._run(replace(self._spec(pace), shape="single", connections=SINGLE_CONNECTIONS))

    def _spec(self, pace: Pace) -> Spec:
        self._runs += 1
        return Spec(
            port=self.pipeline.port,
            key=self._key,
            mode="closed",
            targets=TARGETS,
            events=EVENTS,
            connections=BATCH_CONNECTIONS,
            seconds=pace.seconds,
            first=self._runs * POSTS_APART,
            seed=self._seed,
        )

    def _run(self, spec: Spec) -> Report:
        cpu_s = self.pipeline.cpu_s("ingest")
        report = load(spec)
        cpu_s = self.pipeline.cpu_s("ingest") - cpu_s
        others = {code: n for code, n in report.statuses.items() if code != 202}
        say(
            f"    {spec.shape} {spec.mode}: {report.events / report.elapsed_s:>9,.0f} events/s, "
            f"cores: ingest {cpu_s / (spec.seconds + spec.warm_s):.2f}, "
            f"load {report.cpu_s / report.elapsed_s:.2f}"
            + (f"; not 202: {others}" if others else "")
        )
        return report


def event_bytes(seed: int) -> list[bytes]:
    """The single events of a post, as the rivals append them."""
    now_us = time.time_ns() // 1000
    return numbered(business(EVENTS, targets=TARGETS, now_us=now_us, seed=seed), 0).split(b"\n")


def turns(rival: Run, ours: Callable[[], float], pace: Pace) -> tuple[list[float], list[float]]:
    """Both, one after the other, again and again: the rival's rates and ours."""
    theirs, mine = [], []
    for _ in range(pace.repeats):
        theirs.append(rival(seconds=pace.seconds).per_s)
        mine.append(ours())
    return theirs, mine


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """How long posts waited for their 202 at a rate of events. ``tails_ms``: p99 of each run."""

    eps: float
    p50_ms: float
    tails_ms: list[float]

    @property
    def p99_ms(self) -> float:
        """The median of the runs."""
        return median(self.tails_ms)

    def document(self) -> dict[str, object]:
        """For the context."""
        tails = [round(each, 1) for each in self.tails_ms]
        return {"eps": round(self.eps), "p50_ms": round(self.p50_ms, 2), "p99_ms": tails}


def acknowledged(served: Served, pace: Pace, eps: float) -> Acknowledged:
    """Posts that arrive at their own times, so many events a second."""
    runs = [
        served.batched(pace, posts_per_s=eps / EVENTS).latencies_ms for _ in range(pace.repeats)
    ]
    every = [value for run in runs for value in run]
    tails = [percentile(run, 99) for run in runs]
    found = Acknowledged(eps=eps, p50_ms=percentile(every, 50), tails_ms=tails)
    say(
        f"    acknowledged at {eps:,.0f} events/s: p50 {found.p50_ms:.1f},"
        f" p99 {found.p99_ms:.1f} ms ({spread(tails)})"
    )
    return found


def on_sqlite(folder: Path, pace: Pace, seed: int, figures: Figures) -> bool:
    """True; batched_eps, single_rps, ack_p99_ms, ratio_sqlite."""
    say("ingest on SQLite, beside a raw WAL/FULL append")
    events = event_bytes(seed)
    found, rival = best(
        [partial(raw_sqlite, folder, events, batch=batch) for batch in SQLITE_BATCHES], pace.sweep_s
    )
    say(f"    raw append, best of the sweep: {found.per_s:,.0f}/s with {found.setting}")
    with Pipeline(folder / "served", Shape(targets=TARGETS)) as pipeline:
        served = Served(pipeline, seed)
        reports: list[Report] = []

        def ours() -> float:
            reports.append(served.batched(pace))
            return reports[-1].events / reports[-1].elapsed_s

        raw, batched = turns(rival, ours, pace)
        eps = median(batched)
        figures.key("batched_eps", eps)
        figures.key("ratio_sqlite", eps / median(raw))
        say(f"    batched: {spread(batched)}; raw: {spread(raw)}")
        half = acknowledged(served, pace, eps / 2)
        figures.key("ack_p99_ms", half.p99_ms)
        aimed = acknowledged(served, pace, AIMED_EPS / 2)
        singles = [served.single(pace) for _ in range(pace.repeats)]
        rates = [single.events / single.elapsed_s for single in singles]
        figures.key("single_rps", median(rates))
    figures.more["sqlite"] = {
        "raw_eps": [round(each) for each in raw],
        "raw_batch": found.setting,
        "batched_eps": [round(each) for each in batched],
        "ack": [half.document(), aimed.document()],
        "single_rps": [round(each) for each in rates],
        "load_cores": round(max(r.cpu_s / r.elapsed_s for r in (*reports, *singles)), 2),
    }
    return True


def kafka_settings(port: int, partitions: int = PARTITIONS) -> Mapping[str, object]:
    """Of a broker on this machine that keeps one copy."""
    return {
        "bootstrap": [f"127.0.0.1:{port}"],
        "partitions": partitions,
        "replication": 1,
        "allow_single_copy": True,
    }


def on_kafka(folder: Path, pace: Pace, seed: int, figures: Figures) -> bool:
    """True; ratio_kafka."""
    say(f"ingest on Kafka's protocol, beside a bare kafka-python producer; {broker.NAME}")
    from kafka.admin import KafkaAdminClient, NewTopic

    with Broker() as running:
        bootstrap, topic = f"127.0.0.1:{running.port}", "bare"
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        admin.close()
        bare, events = BareProducer(bootstrap, topic, PARTITIONS), event_bytes(seed)
        found, rival = best(
            [
                partial(bare.run, events, linger_ms=ms, batch_bytes=size, compression=compression)
                for ms in LINGERS_MS
                for size in KAFKA_BATCH_BYTES
                for compression in COMPRESSIONS
            ],
            pace.sweep_s,
        )
        say(f"    bare producer, best of the sweep: {found.per_s:,.0f}/s with {found.setting}")
        shape = Shape(targets=TARGETS, bus="kafka", kafka=kafka_settings(running.port))
        with Pipeline(folder / "kafka", shape) as pipeline:
            served = Served(pipeline, seed)

            def ours() -> float:
                report = served.batched(pace)
                return report.events / report.elapsed_s

            raw, batched = turns(rival, ours, pace)
    figures.key("ratio_kafka", median(batched) / median(raw))
    say(f"    batched: {spread(batched)}; bare: {spread(raw)}")
    figures.more["kafka"] = {
        "broker": broker.NAME,
        "partitions": PARTITIONS,
        "bare_eps": [round(each) for each in raw],
        "bare_setting": found.setting,
        "batched_eps": [round(each) for each in batched],
    }
    return True
