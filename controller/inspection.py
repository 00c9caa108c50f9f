"""What operators look at, over every partition of the bus: letters, orphans, producers, commands.

Each partition has a features file of its own, written by whoever owns it and read here. Lists run
through all of them by offset; a place in a list is ``<offset>`` or ``<offset>.<partition>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from signals.errors import Rejected, Unavailable
from signals.events import Signal
from signals.features.operating import CommandOutcome, LetterSeen, Quarantined, letter_place
from signals.features.producers import ClockReport, KindCounts, ProducerReport
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings

EVERY_PARTITION: Final = 1_000_000
"""Above any partition: a place that is only an offset has passed all entries with that offset."""


class Place(Struct, frozen=True, order=True):
    """Where a list goes on: after the entry at this offset of this partition.

    >>> str(Place.parse("17.2")), str(Place.parse("17"))
    ('17.2', '17')
    """

    offset: int
    partition: int = EVERY_PARTITION

    @classmethod
    def parse(cls, text: str) -> Place:
        """Raises ``Rejected``."""
        parts = text.split(".")
        if not 1 <= len(parts) <= 2 or not all(p.isascii() and p.isdigit() for p in parts):
            raise Rejected(
                f"{text!r} is no place in a list",
                field="after",
                value=text,
                allowed="what a page's `next` says",
            )
        return cls(*(min(int(part), 2**62) for part in parts))

    def after(self, partition: int) -> int:
        """The offset of a partition that the list has passed."""
        return self.offset if partition <= self.partition else self.offset - 1

    def __str__(self) -> str:
        bare = self.partition == EVERY_PARTITION
        return str(self.offset) if bare else f"{self.offset}.{self.partition}"


class OrphanSeen(Struct, frozen=True, kw_only=True):
    """Feedback that waits for its request, and where it stands on the bus."""

    partition: int
    offset: int
    accepted_us: int
    signal: Signal


class Inspection:
    """Reads the features files that there are. ``files``: partition -> path, asked at each call.

    Raises ``Unavailable`` while there is none. Thread-safe.
    """

    def __init__(self, files: Callable[[], Mapping[int, Path]], settings: FeatureSettings) -> None:
        self._files = files
        self._settings = settings
        self._readers: dict[int, SqliteFeatures] = {}

    def close(self) -> None:
        """Let go of the files."""
        for reader in self._readers.values():
            reader.close()

    def dead_letters(
        self,
        *,
        reason: str | None = None,
        producer: str | None = None,
        target: str | None = None,
        after: Place,
        limit: int,
    ) -> Sequence[LetterSeen]:
        """Events that can't be counted, above ``after``; each filter that is given must be met."""
        found = [
            letter
            for reader in self._there()
            for letter in reader.dead_letters(
                reason=reason,
                producer=producer,
                target=target,
                after=after.after(reader.partition),
                limit=limit,
            )
        ]
        return sorted(found, key=lambda each: (each.offset, each.partition))[:limit]

    def letter(self, id_: str) -> LetterSeen | None:
        """One letter by its id; None: there is no such letter. Raises ``Rejected``."""
        partition, offset = letter_place(id_)
        for reader in self._there():
            if reader.partition == partition:
                return reader.dead_letter(offset)
        return None

    def letter_counts(
        self, *, producer: str | None = None, target: str | None = None
    ) -> dict[str, int]:
        """How many letters there are now, by reason."""
        return _added(
            reader.dead_letter_counts(producer=producer, target=target) for reader in self._there()
        )

    def letters_dropped(self) -> int:
        """How many went, ever, because there were too many."""
        return sum(reader.dead_letters_dropped() for reader in self._there())

    def orphans(
        self,
        *,
        target: str | None = None,
        producer: str | None = None,
        after: Place,
        limit: int,
    ) -> Sequence[OrphanSeen]:
        """Feedback whose request is not known yet, above ``after``."""
        found = [
            OrphanSeen(
                partition=reader.partition,
                offset=orphan.offset,
                accepted_us=orphan.accepted_us,
                signal=orphan.signal,
            )
            for reader in self._there()
            for orphan in reader.orphans(
                target=target,
                producer=producer,
                after=after.after(reader.partition),
                limit=limit,
            )
        ]
        return sorted(found, key=lambda each: (each.offset, each.partition))[:limit]

    def orphans_by_producer(self, *, target: str | None = None) -> dict[str, int]:
        """How many wait, of each producer that has any."""
        return _added(reader.orphans_by_producer(target=target) for reader in self._there())

    def producers(self) -> dict[str, ProducerReport]:
        """Each producer's report over all partitions, by name."""
        found: dict[str, list[ProducerReport]] = {}
        for reader in self._there():
            for name, report in reader.producers(self._settings).items():
                found.setdefault(name, []).append(report)
        return {name: merged(reports) for name, reports in sorted(found.items())}

    def quarantined(self) -> dict[str, Quarantined]:
        """The producers whose feedback is set aside in any partition, by name: the first time."""
        found: dict[str, Quarantined] = {}
        for reader in self._there():
            for one in reader.quarantined():
                before = found.get(one.producer)
                if before is None or one.since_us < before.since_us:
                    found[one.producer] = one
        return found

    def command(self, event_id: str) -> CommandOutcome | None:
        """What became of one event of a command; None: not carried out yet, or long ago."""
        for reader in self._there():
            found = reader.command(event_id)
            if found is not None:
                return found
        return None

    def offset(self, partition: int) -> int:
        """The offset that a partition's feature stage has behind it. Raises ``Unavailable``."""
        for reader in self._there():
            if reader.partition == partition:
                return reader.bus_offset()
        raise Unavailable(f"partition {partition} has no features yet")

    def _there(self) -> list[SqliteFeatures]:
        files = self._files()
        if not files:
            raise Unavailable("the feature stage has made no file yet")
        for partition, path in files.items():
            if partition not in self._readers:
                self._readers[partition] = SqliteFeatures(path, partition=partition)
        return [self._readers[partition] for partition in sorted(files)]


def merged(reports: Sequence[ProducerReport]) -> ProducerReport:
    """One producer's reports of several partitions as one."""
    first = reports[0]
    if len(reports) == 1:
        return first
    sums = {
        name: sum(getattr(report, name) for report in reports)
        for name in ("events", "joined", "orphaned", "waiting", "expired", "duplicate", "dead")
    } | {
        name: sum(getattr(report, name) for report in reports)
        for name in ("replayed", "discarded", "dropped")
    }
    known = sums["joined"] + sums["expired"]
    kinds: dict[str, KindCounts] = {}
    for report in reports:
        for kind, counts in report.kinds.items():
            so_far = kinds.setdefault(kind, KindCounts())
            for name in KindCounts.__struct_fields__:
                setattr(so_far, name, getattr(so_far, name) + getattr(counts, name))
    return msgspec.structs.replace(
        first,
        **sums,
        kinds=kinds,
        dead_by_reason=_added(report.dead_by_reason for report in reports),
        join_rate=sums["joined"] / known if known else None,
        last_us=max(report.last_us for report in reports),
        accepted_us=max(report.accepted_us for report in reports),
        clock=_clock([report.clock for report in reports if report.clock.events]),
        quarantined=any(report.quarantined for report in reports),
    )


def _clock(clocks: Sequence[ClockReport]) -> ClockReport:
    """One clock seen from several partitions: behind only if nothing anywhere arrived soon."""
    if len(clocks) <= 1:
        return clocks[0] if clocks else ClockReport()
    flags = {flag for clock in clocks for flag in clock.flags}
    if not all("behind" in clock.flags for clock in clocks):
        flags.discard("behind")
    least = [clock.least_delay_ms for clock in clocks if clock.least_delay_ms is not None]
    return ClockReport(
        events=sum(clock.events for clock in clocks),
        ahead=sum(clock.ahead for clock in clocks),
        most_ahead_ms=max(clock.most_ahead_ms for clock in clocks),
        least_delay_ms=min(least, default=None),
        flags=tuple(sorted(flags)),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))
