"""Rounds by the hundred, on both databases, to be interrupted and gone on with."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Literal

from benchmarks.rounds import Progress, code_digest
from benchmarks.tampering.attacks import ATTACKS
from benchmarks.tampering.databases import Database, PostgresDatabase, SqliteFile
from benchmarks.tampering.rounds import Kind, Outcome, Plan, honest, tampered
from controller.store.sql import open_store
from tests.postgres import Postgres, running_postgres

Which = Literal["tamper", "honest"]
Make = Callable[[Path], Database]

SOURCES: Final = (
    "benchmarks/tampering",
    "controller/audit",
    "controller/store",
    "docs/verify_audit.py",
    "migrations",
    "policies",
)
DATABASES: Final[tuple[Kind, ...]] = ("sqlite", "postgres")
ROUNDS: Final[dict[Which, int]] = {"tamper": 10 * len(ATTACKS) * len(DATABASES), "honest": 1000}


def main(which: Which, arguments: Sequence[str] | None = None) -> int:
    """0 when every attack was found and no honest history raised an alarm."""
    given = _options(which, arguments)
    progress = Progress(given.progress, code_digest(SOURCES), Outcome)
    done = {} if given.again else progress.done()
    outcomes = []
    with databases(given.database) as make:
        for plan in islice(plans(which, given.seed, given.database), given.rounds):
            outcome = done.get((plan, 0))
            if outcome is None:
                outcome = one(make[plan.database], plan)
                progress.add(outcome, 0)
            outcomes.append(outcome)
            _tell(which, outcome, len(outcomes), given.rounds)
    print(json.dumps(summary(which, outcomes)))
    return int(any(outcome.faults for outcome in outcomes))


def plans(which: Which, seed: int, databases: Sequence[Kind]) -> Iterator[Plan]:
    """Every attack on every database in turn, or honest histories on each in turn."""
    for place, database in enumerate(cycle(databases)):
        if which == "honest":
            yield Plan(seed=seed + place, database=database)
        else:
            yield from (
                Plan(seed=seed + place, database=database, attack=attack) for attack in ATTACKS
            )


def one(make: Make, plan: Plan) -> Outcome:
    """Live through one round in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="trimtab-tamper-") as name:
        folder = Path(name)
        (folder / "state").mkdir()
        return (honest if plan.attack is None else tampered)(folder, make(folder), plan)


@contextmanager
def databases(wanted: Sequence[Kind]) -> Iterator[dict[Kind, Make]]:
    """How to make a new store of each kind. A PostgreSQL runs as long as the ``with`` is open."""
    with tempfile.TemporaryDirectory(prefix="trimtab-built-") as name:
        built = Path(name) / "store.db"
        open_store(built).close()

        def sqlite(folder: Path) -> Database:
            shutil.copy(built, folder / "state" / "store.db")
            return SqliteFile(folder / "state" / "store.db")

        if "postgres" not in wanted:
            yield {"sqlite": sqlite}
            return
        with running_postgres() as server:
            yield {"sqlite": sqlite, "postgres": postgres(server)}


def postgres(server: Postgres) -> Make:
    """New stores in a running server."""
    return lambda _folder: PostgresDatabase(server, server.address())


def summary(which: Which, outcomes: Sequence[Outcome]) -> dict[str, int]:
    """The figures."""
    wrong = sum(bool(outcome.faults) for outcome in outcomes)
    word = "undetected" if which == "tamper" else "false_alarms"
    return {
        "rounds": len(outcomes),
        word: wrong,
        "entries": sum(outcome.entries for outcome in outcomes),
        "heads": sum(outcome.heads for outcome in outcomes),
        "restores": sum(outcome.restores for outcome in outcomes),
        "archived": sum(outcome.archived for outcome in outcomes),
    }


def _options(which: Which, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"campaigns --only {which}")
    parser.add_argument("--rounds", type=int, default=ROUNDS[which], help="in all")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument(
        "--database", nargs="+", choices=DATABASES, default=DATABASES, help="on which"
    )
    parser.add_argument(
        "--progress",
        type=Path,
        default=Path(f".trimtab/campaign/{which}.jsonl"),
        help="rounds done; goes on there",
    )
    parser.add_argument("--again", action="store_true", help="live through rounds that were done")
    return parser.parse_args(arguments)


def _tell(which: Which, outcome: Outcome, number: int, of: int) -> None:
    plan = outcome.plan
    for fault in outcome.faults:
        print(f"    FAULT seed {plan.seed} on {plan.database} {plan.attack or ''}: {fault}")
    if number % 50 == 0 or number == of or outcome.faults:
        print(f"{which}: {number} of {of} rounds", flush=True)


def run(which: Which) -> None:
    """As a process, which the alarms that it provokes need not be told of."""
    logging.disable(logging.CRITICAL)
    sys.exit(main(which))
