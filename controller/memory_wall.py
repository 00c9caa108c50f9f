"""Memory's wall in the loop: an exhaustion is noted for good, and ends the trial that led to it.

::

    an engine ran out of memory ──► the wall of its layout and version comes to there ──► noted
            │                                                  │
            └► in a candidate's arm: HARMED, memory exhausted  └► no proposal beyond it (guardrail
                                                                  ``wall``); the margin below it
                                                                  narrows with time, it stays

The note holds the walls that were met, by the engine's fingerprint, and how long contexts are now,
in steps of a quarter so that it is written rarely. Before any exhaustion there is no note and no
guardrail: the pool alone bounds what the plant model proposes, for an engine that preempts when its
pool is full does not die of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from controller.judge.verdict import hard_ruling
from controller.plant.exhaustions import CAP, Exhaustion
from controller.plant.fingerprint import Fingerprint
from controller.plant.memory import Wall, predicted_bytes
from controller.plant.settings import PlantSettings
from controller.reading import undo
from controller.state import Draft, PlantInput, Seen
from policies.guarding import MemoryWall
from signals.events import KvLayout

NOTE: Final = "wall"
MAX_LIVES: Final = 64
"""Lives that ended so, remembered so that each counts once."""
MAX_WALLS: Final = 8
"""Fingerprints with a wall that was met, the latest; an engine has one, a fleet few."""
STEP: Final = math.log(1.25)
"""Contexts are noted anew once they are a quarter longer or shorter."""
CAUSE: Final = "memory exhausted"


class Walls(Struct, frozen=True, kw_only=True):
    """What is known of exhaustions. ``now``: the fingerprint of the engine as it is.

    ``lives``: those that ended so, the latest last.
    """

    met: dict[str, Wall] = {}
    now: str = ""
    context_tokens: float = 0.0
    lives: tuple[str, ...] = ()


def walls(noted: Mapping[str, str]) -> Walls:
    """What was noted; nothing where memory was never exhausted."""
    return _decoded(noted.get(NOTE, "{}"))


@lru_cache(maxsize=64)
def _decoded(text: str) -> Walls:
    return msgspec.json.decode(text, type=Walls)


def heed_wall(draft: Draft, seen: Seen) -> None:
    """Note exhaustions that are new, and end a trial whose candidate led to one."""
    plant = seen.plant
    if plant is None:
        return
    known = walls(draft.noted)
    for one in plant.exhausted:
        if one.life not in known.lives:
            known = _met(draft, known, plant, one)
            _trip(draft, one)
    known = _as_it_is_now(known, plant)
    if known != walls(draft.noted):
        draft.noted[NOTE] = msgspec.json.encode(known, order="sorted").decode()


def wall_of(noted: Mapping[str, str], kv: KvLayout, fingerprint: str) -> Wall:
    """The wall of an engine: the one that was met under its fingerprint, else its pool's."""
    key = Fingerprint.read(fingerprint).key
    fresh = Wall.of(kv, version=key)
    return walls(noted).met.get(key, fresh).on(kv, version=key)


def within_wall(
    draft: Draft, ladder: Sequence[int], now: int | None, plant: PlantInput
) -> tuple[int, ...]:
    """The values below a wall that was met, and the present one; all where none was."""
    wall = walls(draft.noted).met.get(Fingerprint.read(plant.fingerprint).key)
    if wall is None or plant.kv != wall.layout:
        return tuple(ladder)
    tokens, at_us, model = plant.context_tokens, draft.now_us, draft.declared.plant
    return tuple(
        cap
        for cap in ladder
        if cap == now or not wall.refusal(cap, context_tokens=tokens, now_us=at_us, model=model)
    )


def guard_wall(noted: Mapping[str, str], *, now_us: int, model: PlantSettings) -> MemoryWall | None:
    """What guardrails are given: None where the engine as it is was never exhausted."""
    known = walls(noted)
    wall = known.met.get(known.now)
    if wall is None:
        return None
    context = wall.context(known.context_tokens, now_us, model)
    return MemoryWall(
        knob=CAP,
        each_bytes=predicted_bytes(wall.layout, cap=1, context_tokens=context),
        allowed_bytes=wall.allowed_bytes(now_us, model),
        wall_bytes=wall.bytes,
        context_tokens=context,
    )


def _met(draft: Draft, known: Walls, plant: PlantInput, one: Exhaustion) -> Walls:
    """With the wall where memory ended; an engine that announced no layout has none."""
    lives = (*known.lives, one.life)[-MAX_LIVES:]
    cap = _cap(draft, one)
    details: dict[str, object] = {"cap": cap, "context_tokens": round(plant.context_tokens)}
    met = dict(known.met)
    if plant.kv is not None and cap is not None:
        key = Fingerprint.read(plant.fingerprint).key
        before = met.get(key, Wall.of(plant.kv, version=key)).on(plant.kv, version=key)
        wall = before.exhausted(
            cap=cap, context_tokens=plant.context_tokens, now_us=min(one.at_us, draft.now_us)
        )
        met[key] = wall
        details |= {"wall_bytes": wall.bytes, "pool_bytes": wall.pool_bytes}
        while len(met) > MAX_WALLS:
            del met[min(met, key=lambda at: (met[at].exhausted_us, at))]
    draft.note("memory.exhausted", one.replica, incarnation=one.incarnation, **details)
    return msgspec.structs.replace(known, met=met, lives=lives)


def _cap(draft: Draft, one: Exhaustion) -> int | None:
    """The cap it died at. One that a candidate had just set was told in no second yet."""
    trial = draft.trial
    if trial is None or (one.trial, one.arm) != (trial.plan.id, "candidate"):
        return one.cap
    mine = trial.plan.candidate.value if trial.plan.knob == CAP else None
    return one.cap if mine is None else mine


def _trip(draft: Draft, one: Exhaustion) -> None:
    trial = draft.trial
    if trial is None or trial.state != "running":
        return
    if (one.trial, one.arm) != (trial.plan.id, "candidate") or trial.units[-1].tripped:
        return
    policy = draft.policies[trial.plan.policy_id]
    draft.note("trial.tripped", trial.plan.id, policy=policy.id, cause=CAUSE)
    draft.trial = msgspec.structs.replace(trial, ruling=hard_ruling(trial, CAUSE))
    undo(draft, policy, cause=f"HARMED: {CAUSE}", verdict="HARMED")


def _as_it_is_now(known: Walls, plant: PlantInput) -> Walls:
    """With the engine's fingerprint and contexts, once memory was exhausted at all."""
    if not known.met or plant.kv is None:
        return known
    key = Fingerprint.read(plant.fingerprint).key
    met = dict(known.met)
    if key in met and met[key].layout != plant.kv:
        del met[key]
    tokens = plant.context_tokens or known.context_tokens
    if known.context_tokens > 0 and tokens > 0:
        moved = abs(math.log(tokens / known.context_tokens))
        tokens = tokens if moved >= STEP else known.context_tokens
    return msgspec.structs.replace(known, met=met, now=key, context_tokens=tokens)
