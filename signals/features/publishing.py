"""Windows to publish after a batch: what is stored, merged with what the batch adds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from signals.features.change import EngineState
from signals.features.model import WindowCounts, WindowKey, WindowRevision
from signals.features.sequences import Hole
from signals.features.windows import Tally, end_us

Stored = Mapping[WindowKey, WindowRevision]

Bound = tuple[int, int]
"""(end, width) of the last window of a target that is closed: in this order they close."""

_EMPTY = WindowCounts()
_NOTHING: Bound = (0, 0)


class Publisher:
    """Makes revisions with rising cursors. ``bounds``: per target. ``holes``: replica -> gaps.

    ``vanished``: windows that held nothing but a judgement that was taken back before they closed;
    they close as if they had never been.
    """

    def __init__(
        self,
        *,
        cursor: int,
        bounds: Mapping[str, Bound],
        holes: Mapping[tuple[str, str], Sequence[Hole]],
    ) -> None:
        self.cursor = cursor
        self.published: dict[WindowKey, WindowRevision] = {}
        self.vanished: list[WindowKey] = []
        self._bounds = bounds
        self._holes = holes

    def is_over(self, key: WindowKey) -> bool:
        """Whether a window, and all that it is merged from, is closed."""
        return is_over(key, self._bounds)

    def atoms(
        self, stored: Stored, tallies: Mapping[WindowKey, Tally], touched: Iterable[WindowKey]
    ) -> None:
        """Publish the atoms that a tally changes, and the ``touched`` ones if something differs."""
        for key in sorted({*touched, *tallies}):
            counts = _add(stored.get(key), tallies.get(key))
            self._publish(key, stored.get(key), counts, incomplete=self._is_incomplete(key))

    def merge(
        self, key: WindowKey, before: WindowRevision | None, parts: Sequence[WindowRevision]
    ) -> None:
        """Publish a wider window as the merge of its parts: all that there are, all closed."""
        tally = Tally()
        for part in parts:
            tally.merge(part.counts)
        incomplete = any(part.incomplete for part in parts)
        self._publish(key, before, tally.frozen(), incomplete=incomplete)

    def correct(self, key: WindowKey, before: WindowRevision | None, tally: Tally) -> None:
        """Add to a wider window what came when it was closed.

        One that was not there, its parts being gone, is incomplete: what else came then and was
        lost, nobody knows.
        """
        incomplete = before is None or before.incomplete
        self._publish(key, before, _add(before, tally), incomplete=incomplete)

    def open(self, key: WindowKey) -> None:
        """Note that a wider window has begun; it is empty until it closes."""
        self._publish(key, None, _EMPTY, incomplete=False)

    def _publish(
        self,
        key: WindowKey,
        before: WindowRevision | None,
        counts: WindowCounts,
        *,
        incomplete: bool,
    ) -> None:
        closed = self.is_over(key)
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


def is_over(key: WindowKey, bounds: Mapping[str, Bound]) -> bool:
    """Whether a window is closed, and so all that it is merged from. ``bounds``: per target."""
    return (end_us(key), key.width_s) <= bounds.get(key.target, _NOTHING)


def holes_of(engines: Iterable[EngineState]) -> list[Hole]:
    """The gaps of one replica: in each incarnation's sequence, and between incarnations."""
    in_time = sorted(engines, key=lambda engine: (engine.first_us, engine.incarnation))
    holes = [hole for engine in in_time for hole in engine.sequence.holes()]
    for before, after in pairwise(in_time):
        if after.first_us > before.last_us:
            holes.append(Hole(before.last_us, after.first_us, 0))
    return holes


def _add(stored: WindowRevision | None, tally: Tally | None) -> WindowCounts:
    if tally is None:
        return stored.counts if stored is not None else WindowCounts()
    if stored is None:
        return tally.frozen()
    total = Tally()
    total.merge(stored.counts)
    total.absorb(tally)
    return total.frozen()
