"""Windows to publish after a batch: what is stored, merged with what the batch adds. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from signals.events import MICROS
from signals.features.change import EngineState
from signals.features.model import WindowCounts, WindowKey, WindowRevision
from signals.features.sequences import Hole
from signals.features.windows import Tally, end_us, minute_of

Stored = Mapping[WindowKey, WindowRevision]

_EMPTY = WindowCounts()


class Publisher:
    """Makes revisions with rising cursors. ``holes``: replica -> gaps in its records.

    ``vanished``: windows that held nothing but a judgement that was taken back before they closed;
    they close as if they had never been.
    """

    def __init__(
        self,
        *,
        cursor: int,
        closed_us: Mapping[str, int],
        holes: Mapping[tuple[str, str], Sequence[Hole]],
    ) -> None:
        self.cursor = cursor
        self.published: dict[WindowKey, WindowRevision] = {}
        self.vanished: list[WindowKey] = []
        self._closed_us = closed_us
        self._holes = holes

    def atoms(
        self, stored: Stored, tallies: Mapping[WindowKey, Tally], touched: Iterable[WindowKey]
    ) -> None:
        """Publish the atoms that a tally changes, and the ``touched`` ones if something differs."""
        for key in sorted({*touched, *tallies}):
            counts = _add(stored.get(key), tallies.get(key))
            self._publish(key, stored.get(key), counts, incomplete=self._is_incomplete(key))

    def minutes(self, stored: Stored, atoms: Iterable[WindowRevision]) -> None:
        """Publish the minutes of these closed atoms, which are all that each minute has."""
        parts: defaultdict[WindowKey, list[WindowRevision]] = defaultdict(list)
        for atom in atoms:
            parts[minute_of(atom.key)].append(atom)
        for key in sorted(parts):
            tally = Tally()
            for atom in parts[key]:
                tally.merge(atom.counts)
            incomplete = any(atom.incomplete for atom in parts[key])
            self._publish(key, stored.get(key), tally.frozen(), incomplete=incomplete)

    def late(self, stored: Stored, tallies: Mapping[WindowKey, Tally]) -> None:
        """Correct minutes whose atoms are gone, where the minute is still there."""
        for key in sorted(tallies):
            minute = stored.get(key)
            if minute is not None:
                counts = _add(minute, tallies[key])
                self._publish(key, minute, counts, incomplete=minute.incomplete)

    def _publish(
        self,
        key: WindowKey,
        before: WindowRevision | None,
        counts: WindowCounts,
        *,
        incomplete: bool,
    ) -> None:
        closed = end_us(key) <= self._closed_us.get(key.target, 0)
        if before is not None and (before.closed, before.incomplete, before.counts) == (
            closed,
            incomplete,
            counts,
        ):
            return
        if closed and counts == _EMPTY and (before is None or not before.closed):
            self.vanished.append(key)
            return
        corrections = before.revision if before is not None else 0
        self.cursor += 1
        self.published[key] = WindowRevision(
            cursor=self.cursor,
            key=key,
            revision=corrections + 1 if closed else 0,
            closed=closed,
            incomplete=incomplete,
            counts=counts,
        )

    def _is_incomplete(self, key: WindowKey) -> bool:
        gaps = self._holes.get((key.target, key.replica), ())
        return any(gap.from_us < end_us(key) and gap.to_us >= key.start_us for gap in gaps)


def holes_of(engines: Iterable[EngineState]) -> list[Hole]:
    """The gaps of one replica: in each incarnation's sequence, and between incarnations."""
    in_time = sorted(engines, key=lambda engine: (engine.first_us, engine.incarnation))
    holes = [hole for engine in in_time for hole in engine.sequence.holes()]
    for before, after in pairwise(in_time):
        if after.first_us > before.last_us:
            holes.append(Hole(before.last_us, after.first_us, 0))
    return holes


def split_late(
    tallies: Mapping[WindowKey, Tally], *, oldest_us: Mapping[str, int]
) -> tuple[dict[WindowKey, Tally], dict[WindowKey, Tally]]:
    """(atoms that are still kept, minutes of those that are not). ``oldest_us``: per target."""
    kept: dict[WindowKey, Tally] = {}
    late: defaultdict[WindowKey, Tally] = defaultdict(Tally)
    for key, tally in tallies.items():
        if key.start_us >= oldest_us.get(key.target, 0):
            kept[key] = tally
        else:
            late[minute_of(key)].merge(tally.frozen())
    return kept, dict(late)


def oldest_atom_us(watermark_us: int, atom_retention_s: int) -> int:
    """The start of the first atom kept, a whole minute, so no minute is kept in part."""
    cut_us = max(0, watermark_us - atom_retention_s * MICROS)
    return cut_us - cut_us % (60 * MICROS)


def _add(stored: WindowRevision | None, tally: Tally | None) -> WindowCounts:
    if tally is None:
        return stored.counts if stored is not None else WindowCounts()
    if stored is None:
        return tally.frozen()
    total = Tally()
    total.merge(stored.counts)
    total.merge(tally.frozen())
    return total.frozen()
