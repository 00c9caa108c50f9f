"""``python -m benchmarks.races``: rounds until enough was killed. See the package's page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.pipeline import tidy_when_told_to_end
from benchmarks.races.plan import DATABASES, OPERATORS, Plan, plan
from benchmarks.races.summing import SOURCES, summary
from benchmarks.races.world import Outcome, live_through
from benchmarks.rounds import Progress, code_digest
from tests.postgres import running_postgres

PROGRESS = Path(".trimtab/campaign/races.jsonl")
KILLS = 300
PER_ROUND = 15


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.races", description="The races.")
    parser.add_argument("--kills", type=int, default=KILLS, help="kill -9 in all")
    parser.add_argument("--per-round", type=int, default=PER_ROUND, help="kills in one round")
    parser.add_argument("--operators", type=int, default=OPERATORS, help="people at once")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, help="so many rounds, whatever --kills says")
    parser.add_argument("--database", choices=DATABASES, help="only this one; unset = in turns")
    parser.add_argument(
        "--progress", type=Path, default=PROGRESS, help="rounds done; goes on there"
    )
    parser.add_argument("--again", action="store_true", help="live through rounds that were done")
    return parser.parse_args(arguments)


def one_round(wanted: Plan, url: str | None, given: argparse.Namespace) -> Outcome:
    """Live through it and say how it went."""
    with tempfile.TemporaryDirectory(prefix="trimtab-races-") as folder:
        outcome = live_through(Path(folder), wanted, url=url)
        if outcome.faults:
            kept = given.progress.parent / f"races-seed-{wanted.seed}"
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            print(f"    store, latch and log are in {kept}")
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(outcome.acts.items()))
    print(
        f"seed {wanted.seed:>4} {wanted.database:<8} {outcome.kills:>2} kills: {told}; "
        f"{outcome.policies} policies, {outcome.entries} entries, ready within "
        f"{outcome.slowest_ready_s:.1f} s; {outcome.wall_s:.0f} s",
        flush=True,
    )
    if outcome.faults:
        print("\n".join(f"    FAULT {fault}" for fault in outcome.faults))
        print(
            f"    again: python -m benchmarks.races --seed {wanted.seed} --rounds 1"
            f" --per-round {given.per_round} --database {wanted.database} --again",
            flush=True,
        )
    return outcome


def main(arguments: list[str] | None = None) -> int:
    """0 when nothing was wrong."""
    given = options(arguments)
    tidy_when_told_to_end()
    progress = Progress(given.progress, code_digest(SOURCES), Outcome)
    done = {} if given.again else progress.done()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load average {load}; {given.operators} operators")
    outcomes: list[Outcome] = []
    seed = given.seed
    while _more(outcomes, given):
        wanted = plan(
            seed, kills=given.per_round, database=given.database, operators=given.operators
        )
        outcome = done.get((wanted, given.per_round))
        if outcome is None:
            with database(wanted) as url:
                outcome = one_round(wanted, url, given)
            progress.add(outcome, given.per_round)
        outcomes.append(outcome)
        seed += 1
    resumed = sum(outcome in done.values() for outcome in outcomes)
    if resumed:
        print(f"{resumed} of {len(outcomes)} rounds were done before, on this code")
    print(json.dumps(summary(outcomes)))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


@contextmanager
def database(wanted: Plan) -> Iterator[str | None]:
    """An empty database for one round; None: a file of the round's own."""
    if wanted.database == "sqlite":
        yield None
        return
    with running_postgres() as server:
        yield server.empty().url


def _more(outcomes: list[Outcome], given: argparse.Namespace) -> bool:
    if given.rounds is not None:
        return len(outcomes) < int(given.rounds)
    return sum(outcome.kills for outcome in outcomes) < int(given.kills)


if __name__ == "__main__":
    sys.exit(main())
