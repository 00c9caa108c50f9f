"""What operators look at: dead letters, orphans, producers, commands, quarantines. Read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from signals.features import letters, rows
from signals.features.change import Orphan
from signals.features.operating import CommandOutcome, LetterSeen, Quarantined, letter_id
from signals.features.producers import ProducerReport, producer_report
from signals.features.reading import Reading
from signals.settings import FeatureSettings

MAX_SHOWN = 10_000
"""The most rows one of these calls gives."""


class Inspecting(Reading):
    """Lists are by bus offset, above ``after``; each filter that is given must be met."""

    def dead_letters(
        self,
        *,
        reason: str | None = None,
        producer: str | None = None,
        target: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[LetterSeen]:
        """Events that can't be counted."""
        where, given = _where(reason=reason, producer=producer, target=target)
        select = f"SELECT {letters.COLUMNS} FROM dead_letters WHERE bus_offset > ?{where}"
        found = self._rows(
            f"{select} ORDER BY bus_offset LIMIT ?", after, *given, min(limit, MAX_SHOWN)
        )
        return [self._letter(row) for row in found]

    def dead_letter(self, offset: int) -> LetterSeen | None:
        """The one at this offset, or None."""
        select = f"SELECT {letters.COLUMNS} FROM dead_letters WHERE bus_offset = ?"
        found = self._rows(select, offset)
        return self._letter(found[0]) if found else None

    def dead_letter_counts(
        self, *, producer: str | None = None, target: str | None = None
    ) -> dict[str, int]:
        """How many there are now, by reason."""
        where, given = _where(producer=producer, target=target)
        select = f"SELECT reason, COUNT(*) FROM dead_letters WHERE 1{where} GROUP BY reason"
        return dict(self._rows(f"{select} ORDER BY reason", *given))

    def dead_letters_dropped(self) -> int:
        """How many went, ever, because there were too many; each producer's are in its report."""
        return int(self._rows("SELECT COALESCE(SUM(dropped), 0) FROM shelves")[0][0])

    def orphans(
        self,
        *,
        target: str | None = None,
        producer: str | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[Orphan]:
        """Feedback that waits for its request."""
        where, given = _where(producer=producer, target=target)
        select = f"SELECT bus_offset, accepted_us, signal FROM orphans WHERE bus_offset > ?{where}"
        found = self._rows(
            f"{select} ORDER BY bus_offset LIMIT ?", after, *given, min(limit, MAX_SHOWN)
        )
        return [rows.orphan_of(row) for row in found]

    def orphans_waiting(self, *, target: str | None = None, producer: str | None = None) -> int:
        """How many there are."""
        where, given = _where(producer=producer, target=target)
        return int(self._rows(f"SELECT COUNT(*) FROM orphans WHERE 1{where}", *given)[0][0])

    def orphans_by_producer(self, *, target: str | None = None) -> dict[str, int]:
        """How many there are of each producer that has any."""
        where, given = _where(target=target)
        select = f"SELECT producer, COUNT(*) FROM orphans WHERE 1{where} GROUP BY producer"
        return dict(self._rows(f"{select} ORDER BY producer", *given))

    def producers(self, settings: FeatureSettings | None = None) -> dict[str, ProducerReport]:
        """Each producer's report, by name. ``settings``: when a clock is flagged."""
        waiting = self.orphans_by_producer()
        aside = {each.producer for each in self.quarantined()}
        found = self._rows("SELECT producer, counts FROM producers ORDER BY producer")
        return {
            name: producer_report(
                name,
                rows.producer_decoder.decode(counts),
                waiting=waiting.get(name, 0),
                quarantined=name in aside,
                settings=settings or self._settings,
            )
            for name, counts in found
        }

    def commands(self, *, after: int = 0, limit: int = 100) -> Sequence[CommandOutcome]:
        """Commands that were carried out; the latest ``commands`` of the settings are kept."""
        select = "SELECT outcome FROM commands WHERE bus_offset > ? ORDER BY bus_offset LIMIT ?"
        found = self._rows(select, after, min(limit, MAX_SHOWN))
        return [rows.command_decoder.decode(outcome) for (outcome,) in found]

    def command(self, id_: str) -> CommandOutcome | None:
        """The command with this event id; None: not carried out yet, or long ago."""
        select = "SELECT outcome FROM commands WHERE id = ? ORDER BY bus_offset LIMIT 1"
        found = self._rows(select, id_)
        return rows.command_decoder.decode(found[0][0]) if found else None

    def quarantined(self) -> Sequence[Quarantined]:
        """The producers whose feedback is set aside now, by name."""
        found = self._rows("SELECT row FROM quarantine ORDER BY producer")
        return [rows.quarantine_decoder.decode(row) for (row,) in found]

    def _letter(self, row: tuple[Any, ...]) -> LetterSeen:
        letter = letters.letter_of(row)
        return LetterSeen(
            id=letter_id(self.partition, letter.offset),
            partition=self.partition,
            offset=letter.offset,
            target=letter.target,
            producer=letter.producer,
            event_id=letter.event_id,
            reason=letter.reason,
            detail=letter.detail,
            accepted_us=letter.accepted_us,
            attempts=letter.attempts,
            body=letter.body,
        )


def _where(**filters: str | None) -> tuple[str, tuple[str, ...]]:
    """Further conditions on columns of these names, and their arguments."""
    given: Mapping[str, str] = {name: value for name, value in filters.items() if value is not None}
    return "".join(f" AND {name} = ?" for name in given), tuple(given.values())
