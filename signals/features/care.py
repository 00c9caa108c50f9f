"""Entries taken in batches, or one by one where the process died before (``deaths``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from signals.bus.port import Entry
from signals.features.change import FeatureRules
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore

log = logging.getLogger(__name__)

ALONE_AT_ONCE: Final = 50
"""Entries taken one by one in one step, so that other partitions have their turn."""


def take(
    store: FeatureStore, rules: FeatureRules, entries: Sequence[Entry], *, open_s: float
) -> float | None:
    """Take entries that were just read. None: all of them; else seconds until the rest may be read
    again. ``open_s``: for so long the file has been open. Raises ``Unavailable`` and ``Fenced``.
    """
    stage, deaths = FeatureStage(store, rules), rules.settings.deaths
    at = store.position.bus_offset
    if not store.run.careful(at=at):
        if not store.run.suspicious(at=at, deaths=deaths):
            stage.advance(entries)
            return None
        until = entries[-1].offset
        log.warning(
            "%d runs ended at offset %d: entries up to %d are taken one by one",
            store.run.deaths,
            at,
            until,
        )
        store.note(store.run.watching(until=until))
    wait_s = store.run.pause_s(entries[0].offset, each_s=rules.settings.death_pause_s) - open_s
    if wait_s > 0:
        return wait_s
    some = [entry for entry in entries if entry.offset <= store.run.careful_until]
    for entry in some[:ALONE_AT_ONCE]:
        _alone(store, stage, entry, deaths)
    return 0.0


def _alone(store: FeatureStore, stage: FeatureStage, entry: Entry, deaths: int) -> None:
    if not store.run.deadly(entry.offset, deaths=deaths):
        store.note(store.run.trying_alone(entry.offset))
        stage.advance([entry])
        return
    times = store.run.alone_deaths
    log.error("the entry at offset %d is set aside: %d runs died of it", entry.offset, times)
    stage.bury(entry, "deadly", f"{times} runs ended while it was tried alone")
