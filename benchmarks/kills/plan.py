"""What happens in one round: decided by its seed alone. Pure.

SQLite: ingest or the one feature stage is killed, or both at once. Kafka: ingest (the producer) or
one of a group of two feature stages is killed, connections are cut after the broker had the request
and before ingest had the reply, a stage is stopped past its session and then goes on. The next blow
comes at a random moment after ingest answers again, or, three in ten, after the last blow, so that
victims die while they start and while they recover, too.
"""

from __future__ import annotations

from random import Random
from typing import Final, Literal

from msgspec import Struct

Bus = Literal["sqlite", "kafka"]
Kind = Literal["ingest", "features", "both", "member", "cut", "pause"]
MEMBERS: Final = ("features-a", "features-b")
KILLS: Final = {"ingest": 1, "features": 1, "both": 2, "member": 1, "cut": 0, "pause": 0}
"""How many ``kill -9`` a blow is."""

READY: Final = 0.7
"""Share of the blows that wait until ingest answers."""

_KINDS: Final[dict[Bus, tuple[Kind, ...]]] = {
    "sqlite": ("ingest", "ingest", "features", "features", "both"),
    "kafka": ("ingest", "ingest", "member", "member", "cut", "cut", "pause"),
}
_APART_S: Final[dict[Bus, tuple[float, float]]] = {"sqlite": (0.02, 1.2), "kafka": (0.1, 2.0)}


class Blow(Struct, frozen=True, kw_only=True):
    """One blow. ``names``: the processes; none for a cut. ``ready``: wait for ingest first."""

    kind: Kind
    names: tuple[str, ...]
    ready: bool
    after_s: float


class Plan(Struct, frozen=True, kw_only=True):
    """One round."""

    seed: int
    bus: Bus
    blows: tuple[Blow, ...]

    @property
    def kills(self) -> int:
        """``kill -9`` in it."""
        return sum(KILLS[blow.kind] for blow in self.blows)


def plan(seed: int, *, kills: int, bus: Bus | None = None) -> Plan:
    """The round of a seed, with at least so many kills. ``bus`` None: odd SQLite, even Kafka.

    >>> plan(3, kills=8) == plan(3, kills=8), plan(3, kills=8).bus, plan(4, kills=8).bus
    (True, 'sqlite', 'kafka')
    """
    rng = Random(seed)
    chosen: Bus = bus or ("sqlite" if seed % 2 else "kafka")
    blows: list[Blow] = []
    while sum(KILLS[blow.kind] for blow in blows) < kills:
        blows.append(_blow(chosen, rng))
    return Plan(seed=seed, bus=chosen, blows=tuple(blows))


def _blow(bus: Bus, rng: Random) -> Blow:
    kind = rng.choice(_KINDS[bus])
    names: tuple[str, ...] = {
        "ingest": ("ingest",),
        "features": ("features",),
        "both": ("ingest", "features"),
        "member": (rng.choice(MEMBERS),),
        "pause": (rng.choice(MEMBERS),),
        "cut": (),
    }[kind]
    ready = rng.random() < READY
    return Blow(kind=kind, names=names, ready=ready, after_s=rng.uniform(*_APART_S[bus]))
