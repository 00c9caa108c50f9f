"""``python -m benchmarks.kills``: rounds until enough was killed. See the package's page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import get_args

from benchmarks import broker
from benchmarks.kills.plan import Bus, Plan, plan
from benchmarks.kills.summing import SOURCES, summary
from benchmarks.kills.world import Outcome, live_through
from benchmarks.pipeline import tidy_when_told_to_end
from benchmarks.rounds import Progress, code_digest

PROGRESS = Path(".trimtab/campaign/kills.jsonl")
KILLS = 300
PER_ROUND = 8


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.kills", description="The kill campaign.")
    parser.add_argument("--kills", type=int, default=KILLS, help="kill -9 in all")
    parser.add_argument("--per-round", type=int, default=PER_ROUND, help="kills in one round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, help="so many rounds, whatever --kills says")
    parser.add_argument(
        "--bus", choices=get_args(Bus), help="only this one; unset = both, in turns"
    )
    parser.add_argument(
        "--progress", type=Path, default=PROGRESS, help="rounds done; goes on there"
    )
    parser.add_argument("--again", action="store_true", help="live through rounds that were done")
    return parser.parse_args(arguments)


def one_round(wanted: Plan, seed: int, given: argparse.Namespace) -> Outcome:
    """Live through it and say how it went."""
    with tempfile.TemporaryDirectory(prefix="trimtab-kills-") as folder:
        outcome = live_through(Path(folder), wanted)
        if outcome.faults:
            kept = given.progress.parent / f"seed-{seed}"
            shutil.copytree(Path(folder) / "logs", kept, dirs_exist_ok=True)
            print(f"    what the processes said is in {kept}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(outcome.kinds.items()))
    print(
        f"seed {seed:>4} {wanted.bus:<6} {outcome.kills:>2} kills ({kinds}): "
        f"{outcome.acknowledged:,} acknowledged, {outcome.unknown} unknown, {outcome.lost} lost, "
        f"{outcome.twice} twice; {outcome.wall_s:.0f} s",
        flush=True,
    )
    if outcome.faults:
        print("\n".join(f"    FAULT {fault}" for fault in outcome.faults))
        which = f" --bus {given.bus}" if given.bus else ""
        print(
            f"    again: python -m benchmarks.kills --seed {seed} --rounds 1"
            f" --per-round {given.per_round}{which} --again",
            flush=True,
        )
    return outcome


def main(arguments: list[str] | None = None) -> int:
    """0 when nothing was lost, nothing counted twice and nothing else was wrong."""
    given = options(arguments)
    tidy_when_told_to_end()
    progress = Progress(given.progress, code_digest(SOURCES), Outcome)
    done = {} if given.again else progress.done()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} cores, load average {load}; Kafka's protocol by {broker.NAME}")
    outcomes: list[Outcome] = []
    seed = given.seed
    while _more(outcomes, given):
        wanted = plan(seed, kills=given.per_round, bus=given.bus)
        outcome = done.get((wanted, given.per_round))
        if outcome is None:
            outcome = one_round(wanted, seed, given)
            progress.add(outcome, given.per_round)
        outcomes.append(outcome)
        seed += 1
    resumed = sum(outcome in done.values() for outcome in outcomes)
    if resumed:
        print(f"{resumed} of {len(outcomes)} rounds were done before, on this code")
    print(json.dumps(summary(outcomes)))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


def _more(outcomes: list[Outcome], given: argparse.Namespace) -> bool:
    if given.rounds is not None:
        return len(outcomes) < int(given.rounds)
    return sum(outcome.kills for outcome in outcomes) < int(given.kills)


if __name__ == "__main__":
    sys.exit(main())
