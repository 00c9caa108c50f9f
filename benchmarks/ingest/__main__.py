"""What the feedback bus and the feature stage can take, each beside a rival where there is one.

::

    load ─► ingest ─► bus          batched, single, acknowledgement     beside a raw WAL/FULL append
    load ─► ingest ─► broker       batched                              beside a bare producer
            bus ─► features        per core, after a short and a 100 times longer history
    load ─► ingest ─► bus ─► features ─► windows                        event → window

The last line is one JSON object: the eight keys (null: not run) and their context.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figures, say, surroundings
from benchmarks.ingest import latency, saturation, serving, stage
from benchmarks.pipeline import tidy_when_told_to_end

PACKAGES = ("msgspec", "uvicorn", "fastapi", "kafka-python")
AIMS = {
    "batched_eps": "≥ 50,000",
    "single_rps": "≥ 3,000",
    "ack_p99_ms": "≤ 25",
    "ratio_sqlite": "≥ 0.35",
    "ratio_kafka": "≥ 0.6",
    "step_eps_core": "≥ 30,000",
    "feature_p99_ms": "≤ 1,000",
    "cost_growth_100x": "≤ 1.3",
}
DEFAULT = ("sqlite", "kafka", "stage", "latency")
PARTS = (*DEFAULT, "saturation")

Part = Callable[[Path, int, Figures], bool]


def parts(given: argparse.Namespace) -> dict[str, Part]:
    """What each part runs; True when nothing was wrong."""
    quick = given.quick
    serve = serving.Pace(
        seconds=1.5 if quick else 5.0, sweep_s=0.25 if quick else 1.0, repeats=2 if quick else 5
    )
    cost = stage.Pace(
        history=given.history or (2_000 if quick else 20_000),
        times=given.times,
        stretch=10_000 if quick else 20_000,
        repeats=2 if quick else 5,
    )
    window = latency.Pace(seconds=6.0 if quick else 20.0, warm_s=2.0 if quick else 4.0)
    flood = saturation.Pace(sustained_s=3.0, seconds=10.0 if quick else given.seconds)
    return {
        "sqlite": lambda folder, seed, told: serving.on_sqlite(folder, serve, seed, told),
        "kafka": lambda folder, seed, told: serving.on_kafka(folder, serve, seed, told),
        "stage": lambda folder, seed, told: stage.measure(folder, cost, seed, told),
        "latency": lambda folder, seed, told: latency.measure(folder, window, seed, told),
        "saturation": lambda folder, seed, told: saturation.measure(folder, flood, seed, told),
    }


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.ingest", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="about a minute; rougher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--history", type=int, default=0, help="events of the short history")
    parser.add_argument("--times", type=int, default=100, help="how much longer the long one is")
    parser.add_argument("--seconds", type=float, default=60.0, help="of saturation")
    parser.add_argument("--json", type=Path, help="write the last line there too")
    return parser.parse_args()


def main() -> int:
    """0 when nothing acknowledged was missing; figures decide nothing."""
    given = options()
    tidy_when_told_to_end()
    figures, began_s, fine = Figures(AIMS), time.monotonic(), True
    figures.more.update(surroundings(given.seed, given.quick, PACKAGES))
    say(", ".join(f"{name} {value}" for name, value in figures.more.items()))
    runs = parts(given)
    for name in given.only or DEFAULT:
        with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
            fine = runs[name](Path(folder), given.seed, figures) and fine
    figures.more["load_average_after"] = surroundings(given.seed, given.quick, PACKAGES)[
        "load_average"
    ]
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(f"\n{figures.table()}\ntook {figures.more['took_s']} s")
    line = json.dumps(figures.document(), ensure_ascii=False)
    if given.json is not None:
        given.json.write_text(line + "\n", encoding="utf-8")
    say(line)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
