"""A world whose learner decides every ten seconds, and what the store remembers of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from controller.config.guardrails import GuardrailSettings
from controller.learner.credit import Entry
from controller.learner.settings import LearnerSettings
from controller.learning.notes import NOTE, Notes
from controller.store.port import Decision
from signals.features.model import WindowCounts, WindowRevision
from tests.loop.cases import anything
from tests.loop.plant import Rows
from tests.loop.world import World

EAGER: dict[str, Any] = {
    "decide_every_s": 10.0,
    "dwell_s": 0.0,
    "reverse_s": 0.0,
    "least_promise": 0.0,
    "least_gain": 0.0,
    "min_unit_s": 1.0,
}
"""Tries whatever is allowed."""
QUICK = GuardrailSettings(dwell_s=0, flip_s=0, settle_s=0)


class Judged(Rows):
    """A feature store that also tells of how many requests were good lately."""

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = 5
    ) -> Sequence[WindowRevision]:
        """As ever, and one window for each intent."""
        recent = [row for row in self.requests[-200:] if row.arrival_us > from_us]
        more = []
        for intent in ("live", "batch"):
            mine = [row.good for row in recent if row.intent == intent]
            window = self._window("", -1, to_us)
            key = structs.replace(window.key, intent=intent)
            counts = WindowCounts(judged=len(mine), good=sum(map(bool, mine)))
            more.append(structs.replace(window, key=key, counts=counts))
        return [*super().windows(target, from_us=from_us, to_us=to_us), *more]


def learning(folder: Path, *, mode: str, credit: float = 1e6, **learner: Any) -> World:
    """A world with batch work that always waits, on a baseline of 8, and credit of before."""
    world = World(folder, quality=anything, mode=mode, guardrails=QUICK)
    settings = LearnerSettings(**{**EAGER, **learner})
    world.declared = structs.replace(world.declared, learner=settings)
    world.rows = Judged(world.engine_instant)
    notes = Notes(entries=(Entry(end_us=world.clock_us(), surplus=credit),) if credit else ())
    noted = {NOTE: msgspec.json.encode(notes, order="sorted").decode()}
    with world.store.write() as tx:
        tx.set_note("noted:chat", msgspec.json.encode(noted).decode())
    restart(world)
    return world


def restart(world: World) -> None:
    """A new process: what was in memory is gone."""
    world.store.close()
    world.start_controller()


def decisions(world: World, *, drawn: bool = True) -> Sequence[Decision]:
    """The learner's, oldest first; only those that were drawn, or only the others."""
    with world.store.read() as tx:
        every = tx.decisions(target="chat", limit=1000)
    mine = [one for one in every[::-1] if one.source.startswith("learner:")]
    return [one for one in mine if (one.choice is not None) == drawn]


def kept_notes(world: World) -> Notes:
    """What the store remembers of the learner."""
    with world.store.read() as tx:
        body = tx.note("noted:chat")
    noted = {} if body is None else msgspec.json.decode(body, type=dict[str, str])
    return msgspec.json.decode(noted[NOTE], type=Notes) if NOTE in noted else Notes()
