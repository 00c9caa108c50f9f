"""The feature process: reads the bus, a batch a transaction, until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_when_event_set,
    wait_exponential,
    wait_random,
)
from tenacity.nap import sleep_using_event

from signals.bus.port import BusReader
from signals.errors import Broken, Unavailable
from signals.features.change import FeatureRules
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore
from signals.settings import FeatureSettings, IntentSettings, MetricSettings

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05


def run(
    *,
    bus: BusReader,
    path: Path,
    intents: Mapping[str, Mapping[str, IntentSettings]],
    metrics: Mapping[str, MetricSettings],
    settings: FeatureSettings,
    stop: threading.Event,
) -> None:
    """Fold the bus into ``path`` until ``stop``. ``intents``: target -> intent -> settings.

    A missing bus or a failing disk is waited for, longer and longer up to ``backoff_max_s``. Raises
    ``Broken`` when an invariant does not hold (another stage at work, another schema).
    """
    rules = FeatureRules(intents=intents, metrics=metrics, settings=settings)
    retrying = Retrying(
        retry=retry_if_exception_type(Unavailable),
        wait=wait_exponential(multiplier=FIRST_PAUSE_S, max=settings.backoff_max_s)
        + wait_random(0, FIRST_PAUSE_S),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=_say,
        reraise=True,
    )
    follower = _Follower(bus, path, rules)
    try:
        while not stop.is_set():
            try:
                pause_s = retrying(follower.step)
            except Unavailable as away:
                log.warning("stopped while waiting: %s", away.detail)
            else:
                stop.wait(pause_s)
    finally:
        follower.close()


class _Follower:
    """One step of the process at a time; after a failure the store is opened afresh."""

    def __init__(self, bus: BusReader, path: Path, rules: FeatureRules) -> None:
        self._bus = bus
        self._path = path
        self._rules = rules
        self._store: FeatureStore | None = None
        self._prune_at_s = time.monotonic() + rules.settings.prune_every_s

    def step(self) -> float:
        """Take what the bus has, prune now and then; seconds to pause. Raises ``Unavailable``."""
        try:
            if self._store is None:
                self._store = FeatureStore(self._path)
                self._check_the_bus(self._store)
            return self._advance(self._store)
        except Unavailable:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _check_the_bus(self, store: FeatureStore) -> None:
        """A bus that ends before what was read of it is another bus, or lost what it promised."""
        end, read = self._bus.end(), store.position.bus_offset
        if end < read:
            raise Broken(f"the bus ends at {end}, but {read} was read before")

    def _advance(self, store: FeatureStore) -> float:
        settings = self._rules.settings
        began_s = time.monotonic()
        entries = self._bus.read(after=store.position.bus_offset, limit=settings.batch_events)
        if entries:
            FeatureStage(store, self._rules).advance(entries)
        if began_s >= self._prune_at_s and len(entries) < settings.batch_events:
            more = store.prune(settings)
            soon_s = settings.publish_ms / 1000
            self._prune_at_s = began_s + (soon_s if more else settings.prune_every_s)
        return _pause_s(len(entries), settings, took_s=time.monotonic() - began_s)


def _pause_s(read: int, settings: FeatureSettings, *, took_s: float) -> float:
    """A full batch: there is more, no pause. Some events: windows were just published, so not again
    before ``publish_ms``. None: look again soon, so that the first event after quiet is quick."""
    if read >= settings.batch_events:
        return 0.0
    every_ms = settings.publish_ms if read else settings.poll_ms
    return max(0.0, every_ms / 1000 - took_s)


def _say(state: RetryCallState) -> None:
    """One line per outage, not per attempt."""
    if state.attempt_number == 1 and state.outcome is not None:
        log.warning("the feature stage waits: %s", state.outcome.exception())
