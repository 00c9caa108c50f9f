"""The windows that a change makes, closes or corrects, of every width.

::

    5 s    tallies are added as they come; closes when the watermark is ``lateness_s`` past its end
    1 min  merged from its closed atoms, again with each that closes
    5 min  merged from its minutes when it closes            ┐ before that only noted as open, so
    1 h    merged from its five-minute windows when it closes ┘ that its end is not missed

What comes for a closed window, be it days later, is added to it and to every wider one that is
closed: sums are whole numbers and sketches merge, so the bytes are those that an early arrival
would have made. That needs no look at the other parts, so it costs the same however old it is, and
works where narrower windows are gone. Only a change in what is incomplete takes a merge anew.

At most ``limit`` windows close in a batch, in the order of (end, width), parts before wholes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from signals.events import MICROS
from signals.features.change import Change, EngineState
from signals.features.keeping import PART_S, oldest_us
from signals.features.lookups import Lookups
from signals.features.model import ATOM_S, MINUTE_S, WIDTHS_S, WindowKey, WindowRevision
from signals.features.publishing import Bound, Publisher, Stored, holes_of, is_over
from signals.features.sequences import Hole
from signals.features.windows import Tally, end_us, within
from signals.settings import FeatureSettings

NO_BOUND = 2**62


class Revising:
    """One batch's. ``before``: the watermarks before it, by which old windows were dropped."""

    def __init__(
        self,
        lookups: Lookups,
        settings: FeatureSettings,
        change: Change,
        *,
        before: Mapping[str, int],
        cursor: int,
    ) -> None:
        self._lookups = lookups
        self._settings = settings
        self._change = change
        self._before = before
        self._open_since: dict[str, int] = {}
        self._closing, bounds = self._find_closing()
        self._tallies = self._by_width(bounds)
        suspected = lookups.suspected(change.suspects)
        self._touched = {
            window.key: window
            for window in (*self._closing, *suspected)
            if window.key.width_s == ATOM_S
        }
        holes = self._holes({*self._tallies[ATOM_S], *self._touched})
        self._publisher = Publisher(cursor=cursor, bounds=bounds, holes=holes)
        self._flags: set[WindowKey] = set()

    def publish(self) -> Publisher:
        """Everything that there is to publish."""
        self._atoms()
        for width_s in WIDTHS_S[1:]:
            self._widen(width_s)
        return self._publisher

    def _by_width(self, bounds: Mapping[str, Bound]) -> dict[int, dict[WindowKey, Tally]]:
        """What the change adds to atoms and to wider windows that are over, where still kept.

        A wider window that is not over takes it from its parts, when these close.
        """
        found: dict[int, dict[WindowKey, Tally]] = {width_s: {} for width_s in WIDTHS_S}
        for atom, tally in self._change.tallies.items():
            if self._is_kept(atom):
                found[ATOM_S][atom] = tally
            for width_s in WIDTHS_S[1:]:
                key = within(atom, width_s)
                if not is_over(key, bounds):
                    break
                if self._is_kept(key):
                    found[width_s].setdefault(key, Tally()).absorb(tally)
        return found

    def _is_kept(self, key: WindowKey) -> bool:
        """Whether nothing of that width was dropped yet that starts so late."""
        watermark_us = self._before.get(key.target, 0)
        if key.start_us >= oldest_us(
            key.width_s, watermark_us=watermark_us, settings=self._settings
        ):
            return True
        since_us = self._open_since.get(key.target)
        if since_us is None:
            since_us = self._lookups.open_since(key.target)
            self._open_since[key.target] = since_us
        return key.start_us >= since_us

    def _find_closing(self) -> tuple[list[WindowRevision], dict[str, Bound]]:
        """Open windows that end now, and per target up to where all are among them."""
        lateness_us = self._settings.lateness_s * MICROS
        limit = self._settings.batch_events + 2 * len(self._change.tallies)
        closing: list[WindowRevision] = []
        bounds: dict[str, Bound] = {}
        for target, watermark_us in sorted({**self._before, **self._change.watermarks}.items()):
            closed_us = watermark_us - lateness_us
            found = self._lookups.to_close(target, closed_us, limit=limit)
            closing += found
            last = found[-1].key if len(found) == limit else None
            bounds[target] = (end_us(last), last.width_s) if last else (closed_us, NO_BOUND)
        return closing, bounds

    def _atoms(self) -> None:
        tallies = self._tallies[ATOM_S]
        stored = self._touched | self._lookups.windows(tallies.keys() - self._touched.keys())
        self._publisher.atoms(stored, tallies, self._touched)
        self._note_flags(stored)

    def _widen(self, width_s: int) -> None:
        """Publish the windows of one width whose parts were closed or corrected, or that end."""
        now = self._published_within(width_s)
        tallies = self._tallies[width_s]
        ending = {window.key: window for window in self._closing if window.key.width_s == width_s}
        keys = {*now, *tallies} - ending.keys()
        stored = ending | self._lookups.windows(key for key in keys if self._is_kept(key))
        wanted = [key for key in sorted({*keys, *ending}) if key in ending or self._is_kept(key)]
        anew = []
        for key in wanted:
            window = stored.get(key)
            if not self._publisher.is_over(key):
                if width_s == MINUTE_S and key in now:
                    anew.append(key)
                elif width_s != MINUTE_S and key in now and window is None:
                    self._publisher.open(key)
            elif key in ending or self._takes_a_merge(key, window):
                anew.append(key)
            elif key in tallies:
                self._publisher.correct(key, window, tallies[key])
        self._merge(anew, stored, now)
        self._note_flags(stored)

    def _merge(
        self,
        keys: Sequence[WindowKey],
        stored: Stored,
        now: Mapping[WindowKey, Sequence[WindowRevision]],
    ) -> None:
        parts = self._lookups.parts(keys)
        for key in keys:
            mine = {part.key: part for part in (*parts.get(key, ()), *now.get(key, ()))}
            closed = [part for part in mine.values() if part.closed]
            if closed:
                self._publisher.merge(key, stored.get(key), closed)

    def _takes_a_merge(self, key: WindowKey, window: WindowRevision | None) -> bool:
        """Whether a window that is over has to be looked at as a whole, and still can be."""
        settled = window is not None and window.closed and key not in self._flags
        return not settled and self._is_kept(within(key, PART_S[key.width_s]))

    def _published_within(self, width_s: int) -> dict[WindowKey, list[WindowRevision]]:
        """The parts of each window of that width that were just published, closed."""
        found: defaultdict[WindowKey, list[WindowRevision]] = defaultdict(list)
        for window in self._publisher.published.values():
            if window.closed and window.key.width_s == PART_S[width_s]:
                found[within(window.key, width_s)].append(window)
        return dict(found)

    def _note_flags(self, stored: Stored) -> None:
        """Which wider windows may have become complete or incomplete through what was published."""
        for key, window in self._publisher.published.items():
            before = stored.get(key)
            flag = before.incomplete if before is not None else False
            wider = [width_s for width_s, part_s in PART_S.items() if part_s == key.width_s]
            if window.closed and window.incomplete != flag:
                self._flags.update(within(key, width_s) for width_s in wider)

    def _holes(self, keys: Iterable[WindowKey]) -> Mapping[tuple[str, str], Sequence[Hole]]:
        """The gaps of each replica in question, as they are after this change."""
        since: dict[tuple[str, str], int] = {}
        for key in keys:
            replica = (key.target, key.replica)
            since[replica] = min(key.start_us, since.get(replica, key.start_us))
        return {
            (target, name): holes_of(self._incarnations(target, name, since_us))
            for (target, name), since_us in since.items()
        }

    def _incarnations(self, target: str, replica: str, since_us: int) -> Iterable[EngineState]:
        stored = self._lookups.incarnations(target, replica, since_us=since_us)
        changed = [
            engine
            for engine in self._change.engines.values()
            if (engine.target, engine.replica) == (target, replica)
        ]
        return {engine.incarnation: engine for engine in (*stored, *changed)}.values()
