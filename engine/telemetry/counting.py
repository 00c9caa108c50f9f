"""The ring of an engine that counts for itself: records go in, windows of counts come out.

What the counting made of a batch stays out with the reader until it has arrived: offered again it
must be the same, for the requests in it were counted then.
"""

from __future__ import annotations

from typing import Protocol

from engine.telemetry.ring import TelemetryRing
from signals.events import Record
from signals.features.edge import EdgeCounter


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
            self._out = self._counter.take(self._ring.take(count))
            self._ring.done()
        return self._out

    def done(self) -> None:
        """See ``Outgoing``."""
        self._out = []

    def give_back(self) -> None:
        """See ``Outgoing``; they are the next that are taken."""
