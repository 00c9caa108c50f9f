"""Window arithmetic: event time to 5 s atoms, and one merge for everything.

A window's figures are integer sums, a mergeable sketch and the latest reading of each gauge, so
``merge`` is associative and commutative. The stage folds a batch into fresh windows and merges
these into what is stored; minutes are merges of atoms by the same function. Hence any order of
arrival gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from signals.events import MICROS, Finished, IntentLoad, Second, SeenStamp, StepMoments
from signals.features import sketch
from signals.features.model import ATOM_S, Moments, WindowCounts, WindowKey

_SUMS = (
    "arrivals",
    "offered_tokens",
    "completed",
    "errors",
    "judged",
    "good",
    "good_tokens",
    "output_tokens",
    "covered_us",
    "prefix_lookups",
    "prefix_hits",
    "requests",
)


class Durations:
    """A growing ``Moments``. A sketch that nothing is added to is not taken apart."""

    __slots__ = ("_bins", "_sketch", "count", "sum_sq", "sum_us")

    def __init__(self) -> None:
        self.count = 0
        self.sum_us = 0
        self.sum_sq = 0
        self._bins: sketch.Bins = {}
        self._sketch = b""

    def add(self, value_us: int | None) -> None:
        """Count one duration; None is missing, not zero."""
        if value_us is None:
            return
        self.count += 1
        self.sum_us += value_us
        self.sum_sq += value_us * value_us
        sketch.add(self._bins, value_us)

    def merge(self, moments: Moments) -> None:
        """Add another's."""
        self.count += moments.count
        self.sum_us += moments.sum_us
        self.sum_sq += moments.sum_sq
        if not self._bins and not self._sketch:
            self._sketch = moments.sketch
        elif moments.sketch:
            sketch.merge(self._bins, sketch.decode(moments.sketch))

    def retract(self, moments: Moments) -> None:
        """Take away what was merged before."""
        self.count -= moments.count
        self.sum_us -= moments.sum_us
        self.sum_sq -= moments.sum_sq
        for key, count in sketch.decode(moments.sketch).items():
            self._bins[key] = self._bins.get(key, 0) - count

    def absorb(self, other: Durations) -> None:
        """Add another's that has grown here too."""
        found = other.frozen()
        if found is not _NO_DURATIONS:
            self.merge(found)

    def frozen(self) -> Moments:
        """As published."""
        if not self.count and not self._bins and not self._sketch:
            return _NO_DURATIONS
        if self._sketch and self._bins:
            sketch.merge(self._bins, sketch.decode(self._sketch))
            self._sketch = b""
        return Moments(
            count=self.count,
            sum_us=self.sum_us,
            sum_sq=self.sum_sq,
            sketch=self._sketch or sketch.encode(self._bins),
        )


_NO_DURATIONS = Moments()


class Gauges(Struct, frozen=True, order=True):
    """Readings at one moment. The later one wins; at the same moment the larger, in any order."""

    at_us: int = 0
    waiting: int = 0
    running: int = 0
    kv_blocks_used: int = 0
    kv_blocks_total: int = 0


class Tally:
    """A growing ``WindowCounts``. Sums may go negative in a tally that corrects an older one."""

    __slots__ = ("e2e", "gauges", "outcomes", "sums", "tpot", "ttft")

    def __init__(self) -> None:
        self.sums = dict.fromkeys(_SUMS, 0)
        self.gauges = Gauges()
        self.ttft = Durations()
        self.tpot = Durations()
        self.e2e = Durations()
        self.outcomes: dict[str, dict[str, tuple[int, int]]] = {}

    def load(self, second: Second, load: IntentLoad) -> None:
        """One intent's share of a ``second``."""
        sums = self.sums
        sums["arrivals"] += load.arrivals
        sums["offered_tokens"] += load.offered_tokens
        sums["output_tokens"] += load.output_tokens
        sums["covered_us"] += second.to_us - second.from_us
        sums["prefix_lookups"] += second.prefix_lookups
        sums["prefix_hits"] += second.prefix_hits
        gauges = Gauges(
            second.to_us,
            load.waiting,
            load.running,
            second.kv_blocks_used,
            second.kv_blocks_total,
        )
        self.gauges = max(self.gauges, gauges)

    def finished(self, record: Finished) -> None:
        """A request's end. Latencies count whenever they exist, end to end only for answers."""
        if record.status == "error":
            self.sums["errors"] += 1
        if record.status == "ok":
            self.sums["completed"] += 1
            self.e2e.add(record.finished_us - record.arrival_us)
        self.ttft.add(record.ttft_us)
        self.tpot.add(record.tpot_us)

    def judged(self, good: bool, output_tokens: int, *, sign: int = 1) -> None:
        """A request's judgement, or (sign -1) its retraction."""
        self.sums["judged"] += sign
        if good:
            self.sums["good"] += sign
            self.sums["good_tokens"] += sign * output_tokens

    def arrived(self) -> None:
        """A request became known; once for each."""
        self.sums["requests"] += 1

    def outcome(self, metric: str, producer: str, *, requests: int, micros: int) -> None:
        """More requests with a value of a producer, and what is to be added to its sum."""
        of_metric = self.outcomes.setdefault(metric, {})
        so_far = of_metric.get(producer, (0, 0))
        of_metric[producer] = (so_far[0] + requests, so_far[1] + micros)

    def merge(self, counts: WindowCounts) -> None:
        """Add another window's."""
        for name in _SUMS:
            self.sums[name] += getattr(counts, name)
        self.gauges = max(self.gauges, _gauges(counts))
        self.ttft.merge(counts.ttft)
        self.tpot.merge(counts.tpot)
        self.e2e.merge(counts.e2e)
        for metric, of_metric in counts.outcomes.items():
            for producer, (requests, micros) in of_metric.items():
                self.outcome(metric, producer, requests=requests, micros=micros)

    def retract(self, counts: WindowCounts) -> None:
        """Take away what was merged before. Gauges stay: they only go on."""
        for name in _SUMS:
            self.sums[name] -= getattr(counts, name)
        self.ttft.retract(counts.ttft)
        self.tpot.retract(counts.tpot)
        self.e2e.retract(counts.e2e)
        for metric, of_metric in counts.outcomes.items():
            for producer, (requests, micros) in of_metric.items():
                self.outcome(metric, producer, requests=-requests, micros=-micros)

    def absorb(self, other: Tally) -> None:
        """Add another tally."""
        for name, value in other.sums.items():
            if value:
                self.sums[name] += value
        self.gauges = max(self.gauges, other.gauges)
        self.ttft.absorb(other.ttft)
        self.tpot.absorb(other.tpot)
        self.e2e.absorb(other.e2e)
        for metric, of_metric in other.outcomes.items():
            for producer, (requests, micros) in of_metric.items():
                self.outcome(metric, producer, requests=requests, micros=micros)

    def frozen(self) -> WindowCounts:
        """As published; equal tallies freeze to equal bytes."""
        return WindowCounts(
            **self.sums,
            gauge_us=self.gauges.at_us,
            waiting=self.gauges.waiting,
            running=self.gauges.running,
            kv_blocks_used=self.gauges.kv_blocks_used,
            kv_blocks_total=self.gauges.kv_blocks_total,
            ttft=self.ttft.frozen(),
            tpot=self.tpot.frozen(),
            e2e=self.e2e.frozen(),
            outcomes={
                metric: dict(sorted(of_metric.items()))
                for metric, of_metric in sorted(self.outcomes.items())
            },
        )


def merge(windows: Iterable[WindowCounts]) -> WindowCounts:
    """The figures of several windows together, whatever their order."""
    tally = Tally()
    for counts in windows:
        tally.merge(counts)
    return tally.frozen()


def merge_steps(steps: Iterable[StepMoments]) -> StepMoments:
    """Sums over several stretches of engine steps."""
    names = StepMoments.__struct_fields__
    sums = dict.fromkeys(names, 0)
    for moments in steps:
        for name in names:
            sums[name] += getattr(moments, name)
    return StepMoments(**sums)


def atom_of(stamp: SeenStamp, intent: str, at_us: int) -> WindowKey:
    """The 5 s window of something that happened at ``at_us`` under ``stamp``."""
    return WindowKey(
        target=stamp.target,
        replica=stamp.replica,
        intent=intent,
        digest=stamp.digest,
        trial=stamp.trial.id if stamp.trial else "",
        block=stamp.trial.block if stamp.trial else -1,
        start_us=start_of(at_us, ATOM_S),
        width_s=ATOM_S,
    )


def start_of(at_us: int, width_s: int) -> int:
    """The start of the window that holds ``at_us``."""
    return at_us - at_us % (width_s * MICROS)


def end_us(key: WindowKey) -> int:
    """The first moment after the window."""
    return key.start_us + key.width_s * MICROS


def within(key: WindowKey, width_s: int) -> WindowKey:
    """The window of another width that holds the start of this one."""
    if key.width_s == width_s:
        return key
    return WindowKey(
        target=key.target,
        replica=key.replica,
        intent=key.intent,
        digest=key.digest,
        trial=key.trial,
        block=key.block,
        start_us=start_of(key.start_us, width_s),
        width_s=width_s,
    )


def loads(second: Second, declared: Iterable[str]) -> Mapping[str, IntentLoad]:
    """Each intent's load; a declared intent that the engine left out had none in this second."""
    return dict.fromkeys(declared, IntentLoad()) | second.intents


def _gauges(counts: WindowCounts) -> Gauges:
    return Gauges(
        counts.gauge_us,
        counts.waiting,
        counts.running,
        counts.kv_blocks_used,
        counts.kv_blocks_total,
    )
