"""``python -m benchmarks.api``: real processes, real sockets, every route, every role."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.api.calling import Tally, conform
from benchmarks.api.served import Served
from benchmarks.pipeline import tidy_when_told_to_end
from controller.store.port import ROLES

SHOWN = 20


def main() -> int:
    """0 when no answer broke the document's promise."""
    parser = argparse.ArgumentParser(prog="benchmarks.api", description=__doc__)
    parser.add_argument("--examples", type=int, default=25, help="right and wrong calls of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="a PostgreSQL's URL; unset = SQLite")
    given = parser.parse_args()
    tidy_when_told_to_end()
    began_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-api-") as folder,
        Served(Path(folder), given.store) as served,
    ):
        document = served.http.get("/openapi.json").raise_for_status().json()
        tally = conform(
            document,
            served.send,
            served.known(),
            roles=ROLES,
            seed_=given.seed,
            examples=given.examples,
        )
        ended = served.pipeline.ended()
    _tell(tally, time.monotonic() - began_s, given.seed)
    if ended:
        print(f"ended by themselves: {', '.join(ended)}")
    return 1 if tally.failures or ended else 0


def _tell(tally: Tally, wall_s: float, seed: int) -> None:
    print(
        f"{tally.operations} operations, {tally.calls} calls as {len(ROLES)} roles in"
        f" {wall_s:.0f} s, seed {seed}: {len(tally.failures)} broke the document's promise"
    )
    for role in ROLES:
        counts = {
            one.partition(" ")[2]: count
            for one, count in sorted(tally.statuses.items())
            if one.startswith(f"{role} ")
        }
        print(f"    {role:9} " + ", ".join(f"{status}: {n}" for status, n in counts.items()))
    for failure in tally.failures[:SHOWN]:
        print(f"    {failure}")


if __name__ == "__main__":
    sys.exit(main())
