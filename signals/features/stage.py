"""The feature stage: a stretch of the bus in, one transaction out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from signals.bus.port import Entry
from signals.events import MICROS, DiscardLetters, ReplayLetters
from signals.features.batch import Again, Batch, Summoned, apart, burying, decode_all, needs
from signals.features.change import Change, EngineState, FeatureRules
from signals.features.commands import summon
from signals.features.fold import fold, settle_due
from signals.features.model import ATOM_S, WindowKey
from signals.features.publishing import Publisher, holes_of, oldest_atom_us, split_late
from signals.features.sequences import Hole
from signals.features.store import FeatureStore, Position
from signals.features.windows import minute_of
from signals.features.writes import Written

UNFOLDABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
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
        batch = decode_all(entries)
        if batch.commands and len(entries) > 1:
            for stretch in apart(entries, batch.commands):
                self.advance(stretch)
            return
        try:
            self._take(entries, self._summon(batch, {}))
        except UNFOLDABLE as error:
            self._advance_in_parts(entries, batch, error)

    def bury(self, entry: Entry, reason: str, detail: str) -> None:
        """Take an entry by making it a dead letter."""
        self._take([entry], burying(entry, reason, detail))

    def _advance_in_parts(self, entries: Sequence[Entry], batch: Batch, error: Exception) -> None:
        if len(entries) > 1:
            middle = len(entries) // 2
            self.advance(entries[:middle])
            self.advance(entries[middle:])
            return
        spoilt = self._spoilt(entries, batch, self._summon(batch, {}).summoned.again)
        if spoilt:
            try:
                self._take(entries, self._summon(batch, spoilt))
                return
            except UNFOLDABLE as again:
                error = again
        self.bury(entries[0], "unfoldable", _said(error))

    def _summon(self, batch: Batch, spoilt: Mapping[int, str]) -> Batch:
        """The batch with the dead letters that its command, if it is one, is about."""
        command = batch.events[0].signal.command if batch.commands else None
        if not isinstance(command, ReplayLetters | DiscardLetters):
            return batch
        limit = self._rules.settings.command_letters
        chosen = self._store.lookups.letters(command, limit=limit)
        return replace(batch, summoned=summon(batch.events[0], chosen, spoilt=spoilt))

    def _spoilt(
        self, entries: Sequence[Entry], batch: Batch, again: Sequence[Again]
    ) -> dict[int, str]:
        """Which of the letters can't be folded, whatever they are tried with, and why."""
        if not again:
            return {}
        try:
            self._take(entries, replace(batch, summoned=Summoned(again=again)), rehearse=True)
        except UNFOLDABLE as error:
            if len(again) == 1:
                return {again[0].letter.offset: _said(error)}
            middle = len(again) // 2
            return self._spoilt(entries, batch, again[:middle]) | self._spoilt(
                entries, batch, again[middle:]
            )
        return {}

    def _take(self, entries: Sequence[Entry], batch: Batch, *, rehearse: bool = False) -> None:
        stored, rules = self._store.lookups, self._rules
        known = stored.load(needs(batch))
        change = fold(batch, known, rules)
        limit = rules.settings.batch_events
        stored.waiting({**known.watermarks, **change.watermarks}, known, change, limit=limit)
        due = stored.due(change.watermarks, limit=limit)
        settle_due(due, known, change, rules)
        publisher = self._publish(change, before=known.watermarks)
        put = self._store.rehearse if rehearse else self._store.commit
        put(
            Written(
                change=change,
                windows=publisher.published.values(),
                vanished=publisher.vanished,
                settings=rules.settings,
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


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
