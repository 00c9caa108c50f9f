"""A feature stage that folds what a test gives it, and takes commands as ingest would pass them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from signals.bus.port import BusStatus
from signals.errors import Unavailable
from signals.events import Record, Signal
from tests.signals.making import Folding


class Stage:
    """See ``controller.feedback.Commands``.

    ``away``: ingest does not answer. ``mute``: it takes what is posted, and no answer comes back.
    """

    def __init__(self, path: Path) -> None:
        self.away = False
        self.mute = False
        self.waiting: list[Signal] = []
        self._folding = Folding(path)

    def check(self) -> None:
        if self.away:
            raise Unavailable("ingest does not answer")

    def post(self, commands: Sequence[Signal]) -> None:
        self.waiting += commands
        if self.mute:
            raise Unavailable("ingest does not answer")

    def fold(self) -> None:
        """Carry out what was posted."""
        posted, self.waiting = self.waiting, []
        if posted:
            self._folding.take(*posted)

    def take(self, *signals: Signal | Record) -> None:
        """Fold some events."""
        self._folding.take(*signals)

    def status(self) -> dict[int, BusStatus]:
        """A bus that ends where the stage is."""
        end = self._folding.store.position.bus_offset
        consumers = {"features": end}
        status = BusStatus(
            first=1, end=end, consumers=consumers, bytes=4096, segments=1, oldest_us=None
        )
        return {0: status}

    def close(self) -> None:
        self._folding.close()
