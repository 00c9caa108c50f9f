"""The feature stage: a stretch of the bus in, one transaction out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from signals.bus.port import Entry
from signals.events import MICROS
from signals.features.batch import Batch, decode_all, needs, unfoldable
from signals.features.change import Change, EngineState, FeatureRules, ProducerCounts
from signals.features.fold import fold, settle_due
from signals.features.model import ATOM_S, WindowKey
from signals.features.publishing import Publisher, holes_of, oldest_atom_us, split_late
from signals.features.sequences import Hole
from signals.features.store import FeatureStore, Position
from signals.features.windows import minute_of
from signals.features.writes import Written

UNFOLDABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What an entry may fail with that no retry cures."""


class FeatureStage:
    """Decode, dedupe, join, fold, judge, publish. Holds nothing between batches but the store."""

    def __init__(self, store: FeatureStore, rules: FeatureRules) -> None:
        self._store = store
        self._rules = rules

    @property
    def position(self) -> Position:
        """How far it is."""
        return self._store.position

    def advance(self, entries: Sequence[Entry]) -> None:
        """Take the next entries of the bus. Raises ``Unavailable``; nothing has changed then.

        An entry that fails by itself, whatever it is tried with, becomes a dead letter: the bus
        has acknowledged it, and it must not stand in the way of what comes after it.
        """
        try:
            self._take(entries, decode_all(entries))
        except UNFOLDABLE as error:
            if len(entries) > 1:
                middle = len(entries) // 2
                self.advance(entries[:middle])
                self.advance(entries[middle:])
            else:
                detail = f"{type(error).__name__}: {error}"
                self._take(entries, unfoldable(entries[0], detail))

    def _take(self, entries: Sequence[Entry], batch: Batch) -> None:
        stored, rules = self._store.lookups, self._rules
        known = stored.load(needs(batch))
        change = fold(batch, known, rules)
        due = stored.due(change.watermarks, limit=rules.settings.batch_events)
        settle_due(due, known, change, rules)
        publisher = self._publish(change, before=known.watermarks)
        self._store.commit(
            Written(
                change=change,
                windows=publisher.published.values(),
                vanished=publisher.vanished,
                producers=_add(stored.producers(change.producers), change.producers),
            ),
            Position(
                batch.last_offset,
                max(self.position.accepted_us, entries[-1].accepted_us),
                publisher.cursor,
            ),
        )

    def _publish(self, change: Change, *, before: Mapping[str, int]) -> Publisher:
        """The windows that the change makes, corrects or closes. ``before``: the watermarks then.

        What is too late for atoms is measured by these: atoms were dropped up to there at most.
        """
        lookups, settings = self._store.lookups, self._rules.settings
        watermarks = {**before, **change.watermarks}
        closed_us = {target: us - settings.lateness_s * MICROS for target, us in watermarks.items()}
        kept, late = split_late(
            change.tallies,
            oldest_us={
                target: oldest_atom_us(us, settings.atom_retention_s)
                for target, us in before.items()
            },
        )
        closing = lookups.to_close(closed_us, limit=settings.batch_events)
        touched = {
            window.key: window
            for window in (*closing, *lookups.suspected(change.suspects))
            if window.key.width_s == ATOM_S
        }
        publisher = Publisher(
            cursor=self.position.cursor,
            closed_us=closed_us,
            holes=self._holes(change, {*kept, *touched}),
        )
        publisher.atoms(touched | lookups.windows(kept.keys() - touched.keys()), kept, touched)
        ending = [window.key for window in closing if window.key.width_s != ATOM_S]
        self._publish_minutes(publisher, ending)
        publisher.late(lookups.windows(late), late)
        return publisher

    def _publish_minutes(self, publisher: Publisher, ending: Iterable[WindowKey]) -> None:
        """The minutes of atoms that were closed or corrected just now, and those that end."""
        lookups = self._store.lookups
        now = {window.key: window for window in publisher.published.values() if window.closed}
        minutes = {*ending, *(minute_of(atom) for atom in now)}
        atoms = {atom.key: atom for minute in minutes for atom in lookups.atoms_of(minute)} | now
        closed = [atom for atom in atoms.values() if atom.closed]
        publisher.minutes(lookups.windows(minutes), closed)

    def _holes(
        self, change: Change, keys: Iterable[WindowKey]
    ) -> Mapping[tuple[str, str], Sequence[Hole]]:
        """The gaps of each replica in question, as they are after this change."""
        since: dict[tuple[str, str], int] = {}
        for key in keys:
            replica = (key.target, key.replica)
            since[replica] = min(key.start_us, since.get(replica, key.start_us))
        return {
            (target, name): holes_of(self._incarnations(change, target, name, since_us))
            for (target, name), since_us in since.items()
        }

    def _incarnations(
        self, change: Change, target: str, replica: str, since_us: int
    ) -> Iterable[EngineState]:
        stored = self._store.lookups.incarnations(target, replica, since_us=since_us)
        changed = [
            engine
            for engine in change.engines.values()
            if (engine.target, engine.replica) == (target, replica)
        ]
        return {engine.incarnation: engine for engine in (*stored, *changed)}.values()


def _add(
    totals: Mapping[str, ProducerCounts], more: Mapping[str, ProducerCounts]
) -> dict[str, ProducerCounts]:
    found = {}
    for name, counts in more.items():
        so_far = totals.get(name, ProducerCounts())
        found[name] = ProducerCounts(
            events=so_far.events + counts.events,
            joined=so_far.joined + counts.joined,
            orphaned=so_far.orphaned + counts.orphaned,
            duplicate=so_far.duplicate + counts.duplicate,
            dead=so_far.dead + counts.dead,
            last_us=max(so_far.last_us, counts.last_us),
        )
    return found
