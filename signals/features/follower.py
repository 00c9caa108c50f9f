"""One partition followed: its reader, its features file, one step at a time."""

from __future__ import annotations

import time
from pathlib import Path

from signals.bus.port import BusReader
from signals.errors import Broken, Fenced, Unavailable
from signals.features.care import take
from signals.features.change import FeatureRules
from signals.features.portions import Portions
from signals.features.store import FeatureStore
from signals.settings import FeatureSettings

END_S = 2.0
END_POLL_S = 0.1


class Follower:
    """Opens the file at its first step, and again after a failure; opening takes the file over."""

    def __init__(self, bus: BusReader, path: Path, rules: FeatureRules) -> None:
        self._bus = bus
        self._portions = Portions(bus, rules.settings)
        self._path = path
        self._rules = rules
        self._store: FeatureStore | None = None
        self._epoch: int | None = None
        self._opened_s = 0.0
        self._prune_at_s = time.monotonic() + rules.settings.prune_every_s

    def step(self) -> float:
        """Take what the bus has, prune now and then; seconds to pause.

        Raises ``Unavailable``, and ``Fenced`` when the file was taken over; nothing has changed
        then. Raises ``Broken`` when the bus does not hold what it must.
        """
        try:
            if self._store is None:
                self._store = self._open()
            return self._advance(self._store)
        except Unavailable:
            self.close()
            raise
        except Fenced:
            self._epoch = None
            self.close()
            raise

    def end(self) -> None:
        """Note an orderly end, then let go of the file. Raises ``Unavailable`` and ``Fenced``."""
        try:
            if self._store is not None and self._epoch is not None:
                self._store.note(self._store.run.ended())
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file, not of the reader."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open(self) -> FeatureStore:
        store = FeatureStore(self._path)
        try:
            self._check_the_bus(store)
            store.begin(before=self._epoch)
        except BaseException:
            store.close()
            raise
        self._epoch, self._opened_s = store.epoch, time.monotonic()
        return store

    def _check_the_bus(self, store: FeatureStore) -> None:
        """A bus that ends before what was read of it is another bus, or lost what it promised.

        It is asked again for a while: a broker that has only just taken a partition over, or has a
        reply on its way, may for a moment name an end before what it has given away already.
        """
        read, deadline_s = store.position.bus_offset, time.monotonic() + END_S
        while (end := self._bus.end()) < read:
            if time.monotonic() > deadline_s:
                raise Broken(f"the bus ends at {end}, but {read} was read before")
            time.sleep(END_POLL_S)

    def _advance(self, store: FeatureStore) -> float:
        settings = self._rules.settings
        began_s = time.monotonic()
        entries, more = self._portions.read(after=store.position.bus_offset)
        wait_s = None
        if entries:
            open_s = began_s - self._opened_s
            wait_s = take(store, self._rules, entries, open_s=open_s)
        if began_s >= self._prune_at_s:
            self._prune(store, began_s, behind=more)
        took_s = time.monotonic() - began_s
        if wait_s is None:
            return pause_s(len(entries), settings, more=more, took_s=took_s)
        return wait_s

    def _prune(self, store: FeatureStore, now_s: float, *, behind: bool) -> None:
        """One round of retention. While there is more to drop, the next follows soon; when the
        stage is behind, after each batch: it drops more than a batch brings."""
        settings = self._rules.settings
        soon_s = 0.0 if behind else settings.publish_ms / 1000
        more = store.prune(settings)
        self._prune_at_s = now_s + (soon_s if more else settings.prune_every_s)


def pause_s(read: int, settings: FeatureSettings, *, more: bool, took_s: float) -> float:
    """There is more: no pause. Some events: windows were just published, so not again
    before ``publish_ms``. None: look again soon, so that the first event after quiet is quick."""
    if more:
        return 0.0
    every_ms = settings.publish_ms if read else settings.poll_ms
    return max(0.0, every_ms / 1000 - took_s)
