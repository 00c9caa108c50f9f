"""The feature stage: a stretch of the bus in, one transaction out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from signals.bus.port import Entry
from signals.events import DiscardLetters, ReplayLetters
from signals.features.batch import Again, Batch, Summoned, apart, burying, decode_all, needs
from signals.features.change import FeatureRules
from signals.features.commands import summon
from signals.features.fold import fold, settle_due
from signals.features.revising import Revising
from signals.features.store import FeatureStore, Position
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
        publisher = Revising(
            stored, rules.settings, change, before=known.watermarks, cursor=self.position.cursor
        ).publish()
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


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
