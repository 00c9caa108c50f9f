"""The retained bus folded again, into a file of its own: what the features would be from it alone.

Nothing of the running stage is touched. Entries that killed it are set aside here too.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path

from msgspec import Struct

from signals.bus.port import BusReader
from signals.errors import Conflict
from signals.features.change import FeatureRules
from signals.features.portions import Portions
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore


class Stretch(Struct, frozen=True, kw_only=True):
    """A stretch of the bus: offsets in (after, until], accepted no later than ``until_us``."""

    after: int
    until: int
    until_us: int | None = None


class Folded(Struct, frozen=True, kw_only=True):
    """What was folded: how many entries, up to which offset, accepted from when to when."""

    entries: int
    last: int
    from_us: int | None
    to_us: int | None


def fold_again(
    reader: BusReader,
    path: Path,
    rules: FeatureRules,
    stretch: Stretch,
    *,
    deadly: Container[int] = (),
    told: Callable[[int], None],
) -> Folded:
    """Fold a stretch into a new file, a batch a transaction; ``told`` the offset after each one.

    Raises ``Conflict`` where the file exists, ``Unavailable``, ``Broken`` for a bus with a hole.
    """
    if path.exists():
        raise Conflict(f"{path} exists; a replay goes into a file of its own", field="into")
    store = FeatureStore(path)
    try:
        stage, portions = FeatureStage(store, rules), Portions(reader, rules.settings)
        entries, at, from_us, to_us = 0, stretch.after, None, None
        while at < stretch.until:
            found = [
                entry
                for entry in portions.read(after=at)[0]
                if entry.offset <= stretch.until
                and (stretch.until_us is None or entry.accepted_us <= stretch.until_us)
            ]
            if not found:
                break
            if any(entry.offset in deadly for entry in found):
                for entry in found:
                    if entry.offset in deadly:
                        stage.bury(entry, "deadly", "it killed the feature stage")
                    else:
                        stage.advance([entry])
            else:
                stage.advance(found)
            entries, at = entries + len(found), found[-1].offset
            from_us, to_us = from_us or found[0].accepted_us, found[-1].accepted_us
            told(at)
        return Folded(entries=entries, last=at, from_us=from_us, to_us=to_us)
    finally:
        store.close()
