"""The bus in portions for one transaction each: so many events at most, and so many bytes."""

from __future__ import annotations

from collections.abc import Sequence

from signals.bus.port import BusReader, Entry
from signals.settings import FeatureSettings


class Portions:
    """What one transaction takes at a time.

    A record may name a thousand requests, so events alone don't bound how much memory a portion
    takes, nor how long its transaction. What is beyond ``batch_bytes`` is read again: so after
    large entries fewer are asked for, and then twice as many each time.
    """

    def __init__(self, bus: BusReader, settings: FeatureSettings) -> None:
        self._bus = bus
        self._settings = settings
        self._limit = settings.batch_events

    def read(self, *, after: int) -> tuple[Sequence[Entry], bool]:
        """The next entries, and whether there are more already. Raises as ``BusReader.read``."""
        found = self._bus.read(after=after, limit=self._limit)
        some = found[: _count(found, self._settings.batch_bytes)]
        more = len(some) < len(found) or len(found) >= self._limit
        fits = len(some) if len(some) < len(found) else self._limit
        self._limit = min(self._settings.batch_events, 2 * fits)
        return some, more


def _count(entries: Sequence[Entry], most_bytes: int) -> int:
    """How many of the first entries have so many bytes together; 1 at least."""
    total = 0
    for count, entry in enumerate(entries):
        total += len(entry.body)
        if total > most_bytes:
            return max(1, count)
    return len(entries)
