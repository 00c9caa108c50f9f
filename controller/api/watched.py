"""What is watched beside trials, of one target: the engine's drift, and memory's wall."""

from __future__ import annotations

from msgspec import Struct

from controller.drift.following import Alarm, DriftState
from controller.drift.noting import drift_note, noted_drift
from controller.memory_wall import guard_wall, walls
from controller.notes import noted
from controller.plant.settings import PlantSettings
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


class WallShown(Struct, frozen=True, kw_only=True):
    """Where memory was exhausted, in predicted bytes; ``allowed_bytes`` of it may be used now.

    ``exhausted_us``: when last. ``each_bytes``: predicted of one sequence of ``context_tokens``, so
    that ``highest`` of them at once are admitted.
    """

    wall_bytes: int
    pool_bytes: int
    allowed_bytes: int
    each_bytes: int
    context_tokens: float
    highest: int
    exhausted_us: int


def wall(tx: Tx, target: str, *, now_us: int, model: PlantSettings) -> WallShown | None:
    """The wall that was met; None: memory was never exhausted on the engine as it is."""
    notes = noted(tx, target)
    guard, known = guard_wall(notes, now_us=now_us, model=model), walls(notes)
    if guard is None:
        return None
    met = known.met[known.now]
    return WallShown(
        wall_bytes=guard.wall_bytes,
        pool_bytes=met.pool_bytes,
        allowed_bytes=guard.allowed_bytes,
        each_bytes=guard.each_bytes,
        context_tokens=round(guard.context_tokens, 1),
        highest=guard.allowed_bytes // guard.each_bytes,
        exhausted_us=met.exhausted_us,
    )


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
