"""What is watched beside trials, of one target: the engine's drift."""

from __future__ import annotations

from msgspec import Struct

from controller.drift.following import Alarm, DriftState
from controller.drift.noting import drift_note, noted_drift
from controller.store.port import Tx


class WatchShown(Struct, frozen=True, kw_only=True):
    """One figure that is watched under the settings in force last. ``off``: in deviations."""

    figure: str
    blocks: int
    off: float
    drifts: bool


class DriftShown(Struct, frozen=True, kw_only=True):
    """``alarm`` null: none stands, and trials may start. As it was noted last."""

    alarm: Alarm | None
    to_us: int
    watches: list[WatchShown]


def drift(tx: Tx, target: str) -> DriftShown:
    """Whether an alarm stands, and what is watched."""
    found = noted_drift(tx.note(drift_note(target)))
    return DriftShown(alarm=found.alarm, to_us=found.to_us, watches=_watches(found))


def _watches(found: DriftState) -> list[WatchShown]:
    if not found.references:
        return []
    latest = max(found.references.values(), key=lambda one: one.used_us)
    return [
        WatchShown(
            figure=name,
            blocks=watch.model.n,
            off=round(watch.off, 3),
            drifts=bool(watch.why_not()),
        )
        for name, watch in sorted(latest.watches.items())
    ]
