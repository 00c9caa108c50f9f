"""Policy transitions a second, beside the bare durable commit rate of the same database.

One writer each. A transition is a whole one: read, check, compare and set, audit entry, head,
durable commit. The bare rate is one insert of a row of the same size and a durable commit, by the
database's own driver. Rounds of the two take turns, so that both see the same machine.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from msgspec import Struct

from benchmarks.audit.records import a_policy
from benchmarks.figures import Figures, median, say, spread
from controller.store.sql import SqlStore
from policies.lifecycle import State

PATH: tuple[State, ...] = ("pending", "approved", "applying", "in_force", "reverting", "reverted")
ROW_BYTES = 1200
"""About a policy's row and its entry."""


class Pace(Struct, frozen=True, kw_only=True):
    """``policies``: moved along ``PATH`` in each round; ``rounds``: of each of the two."""

    policies: int
    rounds: int


Commit = Callable[[int], None]


def measure(name: str, store: SqlStore, bare: Commit, pace: Pace, told: Figures) -> float:
    """The ratio, median over rounds. ``bare`` commits one row of that many bytes."""
    moved, commits = [], []
    for number in range(pace.rounds):
        commits.append(_bare_rate(bare, pace.policies * len(PATH)))
        moved.append(_moves_rate(store, pace.policies, number))
    ratios = [a / b for a, b in zip(moved, commits, strict=True)]
    say(f"{name:<10} transitions/s {spread(moved)}; bare durable commits/s {spread(commits)}")
    told.more[f"transitions_s_{name}"] = round(median(moved))
    told.more[f"bare_commits_s_{name}"] = round(median(commits))
    return median(ratios)


def _moves_rate(store: SqlStore, count: int, round_number: int) -> float:
    policies = [a_policy(round_number * count + number) for number in range(count)]
    with store.write() as tx:
        for policy in policies:
            tx.add_policy(policy)
    at_us, began_s = policies[-1].created_us, time.perf_counter()
    for after in PATH:
        for number, policy in enumerate(policies):
            with store.write() as tx:
                policies[number] = tx.move(policy, after, actor="bench", at_us=at_us)
    return count * len(PATH) / (time.perf_counter() - began_s)


def _bare_rate(bare: Commit, count: int) -> float:
    began_s = time.perf_counter()
    for _ in range(count):
        bare(ROW_BYTES)
    return count / (time.perf_counter() - began_s)


@contextmanager
def bare_sqlite(path: Path) -> Iterator[Commit]:
    """A WAL file with full synchronisation, as the store has it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB)")

        def commit(size: int) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO bare (body) VALUES (?)", (bytes(size),))
            connection.execute("COMMIT")

        yield commit


@contextmanager
def bare_postgres(url: str) -> Iterator[Commit]:
    """One connection, ``synchronous_commit`` as the server has it (on)."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, body bytea)")

        def commit(size: int) -> None:
            with connection.transaction():
                connection.execute("INSERT INTO bare (body) VALUES (%s)", (bytes(size),))

        yield commit
