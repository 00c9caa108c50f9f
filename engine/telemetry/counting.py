"""The ring of an engine that counts for itself: records go in, windows of counts come out.

What the counting made of a batch stays out with the reader until it has arrived: offered again it
must be the same, for the requests in it were counted then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from engine.telemetry.ring import TelemetryRing
from signals.errors import Rejected
from signals.events import Record
from signals.features.edge import EdgeCounter

log = logging.getLogger(__name__)


class Outgoing(Protocol):
    """Where the poster takes records from; ``TelemetryRing`` says what each call means."""

    def __len__(self) -> int:
        """Records that have not arrived."""

    def take(self, count: int) -> list[Record]:
        """The oldest of them."""

    def done(self) -> None:
        """They have arrived."""

    def give_back(self) -> None:
        """They have not."""


class CountingRing:
    """An ``Outgoing`` in front of a ring. One reader."""

    def __init__(self, ring: TelemetryRing, counter: EdgeCounter) -> None:
        self._ring = ring
        self._counter = counter
        self._out: list[Record] = []

    def __len__(self) -> int:
        return len(self._ring) + len(self._out)

    def take(self, count: int) -> list[Record]:
        """What is out already, else what counting makes of up to ``count`` records."""
        if not self._out:
            self._out = self._counted(self._ring.take(count))
            self._ring.done()
        return self._out

    def _counted(self, records: Sequence[Record]) -> list[Record]:
        """A record that is too late to be counted, for the clock was put back by minutes, is left
        out: its number is missing then, so its window is known to be incomplete."""
        try:
            return self._counter.take(records)
        except Rejected as rejected:
            if len(records) > 1:
                return [told for record in records for told in self._counted([record])]
            log.error("a record is lost: %s", rejected.detail)
            return []

    def done(self) -> None:
        """See ``Outgoing``."""
        self._out = []

    def give_back(self) -> None:
        """See ``Outgoing``; they are the next that are taken."""
