"""What happens in one round: decided by its seed alone. Pure.

``serve`` is killed again and again: seven times in ten a random moment after it was ready, else a
random moment after it was started, so that it dies while it starts and recovers, too.
"""

from __future__ import annotations

from random import Random
from typing import Final, Literal, get_args

from msgspec import Struct

Database = Literal["sqlite", "postgres"]
DATABASES: Final[tuple[Database, ...]] = get_args(Database)
READY: Final = 0.7
APART_S: Final = (0.05, 0.9)
STARTING_S: Final = (0.02, 0.5)
OPERATORS: Final = 50


class Kill(Struct, frozen=True, kw_only=True):
    """One ``kill -9``, so long after ``serve`` was ready, or (``ready`` False) was started."""

    ready: bool
    after_s: float


class Plan(Struct, frozen=True, kw_only=True):
    """One round."""

    seed: int
    database: Database
    operators: int
    kills: tuple[Kill, ...]


def plan(
    seed: int, *, kills: int, database: Database | None = None, operators: int = OPERATORS
) -> Plan:
    """The round of a seed. ``database`` None: odd seeds SQLite, even ones PostgreSQL.

    >>> plan(3, kills=8) == plan(3, kills=8), plan(3, kills=8).database, plan(4, kills=8).database
    (True, 'sqlite', 'postgres')
    """
    rng = Random(seed)
    chosen = database or DATABASES[(seed + 1) % 2]
    return Plan(
        seed=seed,
        database=chosen,
        operators=operators,
        kills=tuple(_kill(rng) for _ in range(kills)),
    )


def _kill(rng: Random) -> Kill:
    ready = rng.random() < READY
    return Kill(ready=ready, after_s=rng.uniform(*(APART_S if ready else STARTING_S)))
