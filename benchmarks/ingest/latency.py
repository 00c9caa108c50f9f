"""From an event's post to the window that shows it, at a steady rate through both processes.

Posts of the realistic mix arrive at their own times (open loop). A reader polls published windows
as the controller does and adds up what they show: ended requests and joined feedback. The n-th
event that was sent is taken to be shown when the sum reaches n: with a few connections posts keep
their order but for neighbours, and an event that is never shown keeps all after it waiting.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figures, percentile, say
from benchmarks.ingest.load import Report, Spec
from benchmarks.ingest.running import LoadProcess
from benchmarks.pipeline import Pipeline, Shape
from signals.errors import Unavailable
from signals.features.model import WindowKey, WindowRevision
from signals.features.reader import SqliteFeatures

TARGET = "chat"
EVENTS_PER_S = 10_000
EVENTS = 100
CONNECTIONS = 8
POLL_S = 0.005
"""Between two looks of the reader; it is part of what is measured."""
QUIET_S = 15.0
READ = 1_000


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long, and how long before that counts."""

    seconds: float
    warm_s: float


class Reader:
    """Adds up what windows show, and remembers when it was how much."""

    def __init__(self, features: SqliteFeatures) -> None:
        self._features = features
        self._cursor = 0
        self._shown: dict[WindowKey, int] = {}
        self._sum = 0
        self.steps: list[tuple[float, int]] = []

    @property
    def sum(self) -> int:
        """Ended requests and joined feedback so far."""
        return self._sum

    def look(self) -> None:
        """Take in what was published since."""
        try:
            found = self._features.revisions(after=self._cursor, limit=READ)
        except Unavailable:
            return
        seen_s, before = time.monotonic(), self._sum
        for window in found:
            shows = _shows(window)
            self._sum += shows - self._shown.get(window.key, 0)
            self._shown[window.key] = shows
            self._cursor = window.cursor
        if self._sum != before:
            self.steps.append((seen_s, self._sum))


def measure(folder: Path, pace: Pace, seed: int, figures: Figures) -> bool:
    """True; feature_p99_ms."""
    say(f"event → window at {EVENTS_PER_S:,} events/s over HTTP, windows polled")
    shape = Shape(targets=(TARGET,))
    with (
        Pipeline(folder / "latency", shape) as pipeline,
        closing(SqliteFeatures(pipeline.layout.features_db)) as features,
    ):
        key = pipeline.key("engine", "basic", "business")
        pipeline.start("features")
        pipeline.start("ingest")
        pipeline.wait("ingest to be ready", pipeline.ingest_ready)
        pipeline.wait("the feature stage", lambda: features.bus_offset() >= 0)
        spec = Spec(
            port=pipeline.port,
            key=key,
            mode="open",
            shape="mix",
            targets=(TARGET,),
            events=EVENTS,
            connections=CONNECTIONS,
            warm_s=pace.warm_s,
            seconds=pace.seconds,
            posts_per_s=EVENTS_PER_S / EVENTS,
            seed=seed,
        )
        began_s = time.monotonic()
        cpu_s = {name: pipeline.cpu_s(name) for name in ("ingest", "features")}
        reader = Reader(features)
        report = _follow(LoadProcess(spec), reader)
        took_s = time.monotonic() - began_s
        cores = {name: (pipeline.cpu_s(name) - was) / took_s for name, was in cpu_s.items()}
    _tell(report, reader, pace, cores, figures)
    return True


def _follow(load: LoadProcess, reader: Reader) -> Report:
    """Poll while the load runs, then until all of it is shown or nothing comes any more."""
    while load.running():
        reader.look()
        time.sleep(POLL_S)
    report = load.report()
    sent = sum(shows for _, shows in report.shown)
    deadline_s = time.monotonic() + QUIET_S
    while reader.sum < sent and time.monotonic() < deadline_s:
        reader.look()
        time.sleep(POLL_S)
    if reader.sum != sent:
        raise RuntimeError(f"windows show {reader.sum} events of {sent} that were acknowledged")
    return report


def delays_ms(sent: Sequence[tuple[float, int]], steps: Sequence[tuple[float, int]]) -> list[float]:
    """One delay per post: from its sending until the sum covers it, everything before included.

    >>> delays_ms([(1.0, 10), (2.0, 10)], [(1.5, 12), (2.25, 20)])
    [500.0, 250.0]
    """
    found, step, due = [], 0, 0
    for sent_s, shows in sorted(sent):
        due += shows
        while steps[step][1] < due:
            step += 1
        found.append(1000 * (steps[step][0] - sent_s))
    return found


def _tell(
    report: Report, reader: Reader, pace: Pace, cores: dict[str, float], figures: Figures
) -> None:
    first_s = min(sent_s for sent_s, _ in report.shown) + pace.warm_s
    ordered = sorted(report.shown)
    found = delays_ms(ordered, reader.steps)
    counted = [ms for (sent_s, _), ms in zip(ordered, found, strict=True) if sent_s >= first_s]
    cells = {share: percentile(counted, share) for share in (50, 95, 99)}
    figures.key("feature_p99_ms", cells[99])
    used = ", ".join(f"{name} {value:.2f}" for name, value in cores.items())
    say(
        f"    {report.events / report.elapsed_s:,.0f} events/s acknowledged; "
        + ", ".join(f"p{share} {ms:.0f}" for share, ms in cells.items())
        + f", max {max(counted):.0f} ms; cores: {used}, load {report.cpu_s / report.elapsed_s:.2f}"
    )
    figures.more["latency"] = {
        "events_per_s": round(report.events / report.elapsed_s),
        "ms": {f"p{share}": round(ms, 1) for share, ms in cells.items()},
        "posts": len(counted),
        "statuses": {str(code): n for code, n in report.statuses.items()},
        "cores": {name: round(value, 2) for name, value in cores.items()},
    }


def _shows(window: WindowRevision) -> int:
    counts = window.counts
    joined = sum(n for by in counts.outcomes.values() for n, _ in by.values())
    return counts.completed + joined
