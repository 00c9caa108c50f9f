"""What happens in one round: decided by its seed alone. Pure.

``serve`` is killed again and again: seven times in ten a random moment after it has answered a
random number of acts, whatever the machine is busy with; else a random moment after it was started,
so that it dies while it starts and recovers, too.
"""

from __future__ import annotations

from random import Random
from typing import Final, Literal, get_args

from msgspec import Struct

Database = Literal["sqlite", "postgres"]
DATABASES: Final[tuple[Database, ...]] = get_args(Database)
READY: Final = 0.7
ACTS: Final = (1, 50)
AFTER_S: Final = (0.0, 0.05)
STARTING_S: Final = (0.02, 0.5)
OPERATORS: Final = 50


class Kill(Struct, frozen=True, kw_only=True):
    """One ``kill -9``: so long after so many answers; of ``acts`` None, after the start."""

    acts: int | None
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
    if rng.random() < READY:
        return Kill(acts=rng.randint(*ACTS), after_s=rng.uniform(*AFTER_S))
    return Kill(acts=None, after_s=rng.uniform(*STARTING_S))
