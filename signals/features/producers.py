"""What became of each producer's events, and how far its clock is from ours.

Every event of feedback is in exactly one place, so the counts add up::

    events = joined + orphans waiting + duplicate + dead - replayed
    dead - replayed = dead letters there + discarded + dropped

**Skew.** An event's delay is the time from its own time to its acceptance. A clock that is right
gives delays above zero, some of them small; one that runs ahead gives negative ones, and one that
runs behind (or a queue that stands) none that is small. Counted by the hour of acceptance and kept
for two, so a clock that was put right is soon seen as right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

from signals.events import MICROS
from signals.features import sketch
from signals.settings import FeatureSettings

SPAN_US: Final = 3600 * MICROS
SPANS: Final = 2

ClockFlag = Literal["ahead", "behind"]
"""``ahead``: events from the future. ``behind``: nothing arrives soon after it happened; the clock
is behind, or what it posts waits somewhere."""


class DelaySpan(Struct, kw_only=True):
    """Delays of the events accepted in one hour. ``least_us``: the smallest, negative when from
    the future. ``late`` and ``early`` are sketches of the delays at or above and below zero."""

    start_us: int
    events: int = 0
    ahead: int = 0
    least_us: int | None = None
    late: dict[int, int] = {}
    early: dict[int, int] = {}

    def add(self, delay_us: int, *, sketched: bool) -> None:
        """Count one."""
        self.events += 1
        self.ahead += delay_us < 0
        if self.least_us is None or delay_us < self.least_us:
            self.least_us = delay_us
        if sketched:
            sketch.add(self.late if delay_us >= 0 else self.early, abs(delay_us))

    def merge(self, other: DelaySpan) -> None:
        """Add what ``other`` counted."""
        self.events += other.events
        self.ahead += other.ahead
        known = [us for us in (self.least_us, other.least_us) if us is not None]
        self.least_us = min(known, default=None)
        sketch.merge(self.late, other.late)
        sketch.merge(self.early, other.early)

    def median_us(self) -> int | None:
        """The median delay, within 1 %; None where none was sketched."""
        early, late = sum(self.early.values()), sum(self.late.values())
        if not early + late:
            return None
        rank = (early + late - 1) / 2
        if rank > early - 1:
            found = sketch.quantile(self.late, max(0.0, rank - early) / max(1, late - 1))
            return None if found is None else round(found)
        found = sketch.quantile(self.early, (early - 1 - rank) / max(1, early - 1))
        return None if found is None else -round(found)


class Delays(Struct):
    """The last spans, oldest first."""

    spans: list[DelaySpan] = []

    def add(self, accepted_us: int, time_us: int, *, sketched: bool) -> None:
        """Count one event."""
        self._span(accepted_us // SPAN_US * SPAN_US).add(accepted_us - time_us, sketched=sketched)

    def merge(self, other: Delays) -> None:
        """Add what ``other`` counted."""
        for span in other.spans:
            self._span(span.start_us).merge(span)

    def recent(self) -> DelaySpan:
        """All spans as one."""
        total = DelaySpan(start_us=self.spans[0].start_us if self.spans else 0)
        for span in self.spans:
            total.merge(span)
        return total

    def _span(self, start_us: int) -> DelaySpan:
        if self.spans and self.spans[-1].start_us == start_us:
            return self.spans[-1]
        for span in self.spans:
            if span.start_us == start_us:
                return span
        span = DelaySpan(start_us=start_us)
        self.spans.append(span)
        self.spans.sort(key=lambda each: each.start_us)
        del self.spans[:-SPANS]
        return span


class KindCounts(Struct):
    """What became of one kind of event. ``orphaned``: came before its request was known;
    ``expired``: whose request never came; ``dead`` are dead letters, these too."""

    events: int = 0
    joined: int = 0
    orphaned: int = 0
    expired: int = 0
    duplicate: int = 0
    dead: int = 0
    replayed: int = 0

    def join_rate(self) -> float | None:
        """Of the events whose request is known, or never came, those that found it; None: of no
        event is that settled."""
        settled = self.joined + self.expired
        return self.joined / settled if settled else None


class ProducerCounts(Struct, kw_only=True):
    """Counts by kind, dead letters by reason, and what became of these; ``last_us`` is the event
    time of the latest event, ``accepted_us`` when the last one was accepted."""

    kinds: dict[str, KindCounts] = {}
    dead: dict[str, int] = {}
    discarded: int = 0
    dropped: int = 0
    last_us: int = 0
    accepted_us: int = 0
    delays: Delays = field(default_factory=Delays)

    def kind(self, kind: str) -> KindCounts:
        """The counts of one kind, to count in."""
        counts = self.kinds.get(kind)
        if counts is None:
            counts = self.kinds[kind] = KindCounts()
        return counts

    def merge(self, other: ProducerCounts) -> None:
        """Add what ``other`` counted."""
        for kind, counts in other.kinds.items():
            mine = self.kind(kind)
            for name in KindCounts.__struct_fields__:
                setattr(mine, name, getattr(mine, name) + getattr(counts, name))
        for reason, count in other.dead.items():
            self.dead[reason] = self.dead.get(reason, 0) + count
        self.discarded += other.discarded
        self.dropped += other.dropped
        self.last_us = max(self.last_us, other.last_us)
        self.accepted_us = max(self.accepted_us, other.accepted_us)
        self.delays.merge(other.delays)


class ClockReport(Struct, frozen=True, kw_only=True):
    """A clock as its events show it, over the last hour or two. Records of engines do not count
    here: each replica has a clock of its own (``EngineSeen``).

    ``ahead``: events from the future; ``most_ahead_ms`` the furthest. ``least_delay_ms`` bounds how
    far the clock may be behind; ``median_delay_ms`` is None where delays were not sketched.
    """

    events: int = 0
    ahead: int = 0
    most_ahead_ms: float = 0.0
    least_delay_ms: float | None = None
    median_delay_ms: float | None = None
    flags: tuple[ClockFlag, ...] = ()


class ProducerReport(Struct, frozen=True, kw_only=True):
    """What became of a producer's events, ever, and its clock of late.

    ``join_rate`` = joined / (joined + expired): None before either. ``waiting``: orphans now.
    ``dead_by_reason`` counts burials, also of letters that were replayed, discarded or ``dropped``
    by the bound since. ``quarantined``: whether its feedback is set aside now.
    """

    producer: str
    kinds: Mapping[str, KindCounts]
    events: int
    joined: int
    orphaned: int
    waiting: int
    expired: int
    duplicate: int
    dead: int
    replayed: int
    discarded: int
    dropped: int
    dead_by_reason: Mapping[str, int]
    join_rate: float | None
    last_us: int
    accepted_us: int
    clock: ClockReport
    quarantined: bool


def clock_report(delays: Delays, settings: FeatureSettings) -> ClockReport:
    """What the delays say, flagged beyond ``clock_ahead_ms`` and ``clock_behind_s``."""
    recent = delays.recent()
    least_us = recent.least_us
    if least_us is None:
        return ClockReport()
    median_us = recent.median_us()
    flags: list[ClockFlag] = []
    if least_us < -settings.clock_ahead_ms * 1000:
        flags.append("ahead")
    if least_us > settings.clock_behind_s * MICROS:
        flags.append("behind")
    return ClockReport(
        events=recent.events,
        ahead=recent.ahead,
        most_ahead_ms=max(0, -least_us) / 1000,
        least_delay_ms=least_us / 1000,
        median_delay_ms=None if median_us is None else median_us / 1000,
        flags=tuple(flags),
    )


def producer_report(
    producer: str,
    counts: ProducerCounts,
    *,
    waiting: int,
    quarantined: bool,
    settings: FeatureSettings,
) -> ProducerReport:
    """The counts as they are shown."""
    total = KindCounts()
    for kind in counts.kinds.values():
        for name in KindCounts.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(kind, name))
    return ProducerReport(
        producer=producer,
        kinds=counts.kinds,
        events=total.events,
        joined=total.joined,
        orphaned=total.orphaned,
        waiting=waiting,
        expired=total.expired,
        duplicate=total.duplicate,
        dead=total.dead,
        replayed=total.replayed,
        discarded=counts.discarded,
        dropped=counts.dropped,
        dead_by_reason=counts.dead,
        join_rate=total.join_rate(),
        last_us=counts.last_us,
        accepted_us=counts.accepted_us,
        clock=clock_report(counts.delays, settings),
        quarantined=quarantined,
    )
