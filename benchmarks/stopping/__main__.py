"""``make bench-stop``: hold and kill to read-back, under full load and with parts broken.

::

    act ──► latch ──► PATCH ──► the engine shows it          shown: looked at from outside
      └───────────────────────────────────────────► answer   told: the report with every replica

Real processes, the embedded engine under more clients than its cap. A process that is *down* is
stopped (SIGSTOP): it neither answers nor ends, which is worse than gone. The store that is down
has its write lock taken away. Last line: JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figures, percentile, say, surroundings
from benchmarks.stopping.fleet import by_break_glass, by_operations, configured, fleet_urls, missed
from benchmarks.stopping.system import System, running_system
from benchmarks.stopping.tries import Try, shown, tries
from controller.break_glass import Verb

AIMS = {
    "kill_p99_ms": "≤ 1,000, under full load, 100 tries",
    "bus_down_p99_ms": "≤ 1,000, 20 tries",
    "features_down_p99_ms": "≤ 1,000, 20 tries",
    "store_down_p99_ms": "≤ 1,000, 20 tries",
    "serve_down_p99_ms": "≤ 1,000, 20 tries, --direct",
    "fleet_max_ms": "≤ 2,000, 64 replicas of which 3 are gone",
    "fleet_listed": "1: exactly those 3 were listed, each time",
}
DOWN = (("bus", "ingest"), ("features", "features"))
FLEET = 64
VERBS: tuple[Verb, ...] = ("hold", "release", "kill", "release")


def main() -> int:
    """0 when everything was measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(description="Latency of hold and kill.")
    parser.add_argument("--n", type=int, default=100, help="tries under full load")
    parser.add_argument("--broken", type=int, default=20, help="tries with each part down")
    parser.add_argument("--only", choices=("system", "fleet"), help="only this half")
    given = parser.parse_args()
    figures, began_s = Figures(AIMS), time.monotonic()
    quick = given.n < 100 or given.broken < 20
    figures.more = surroundings(0, quick, ["fastapi", "httpx", "uvicorn"])
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        if given.only != "fleet":
            with running_system(Path(folder)) as system:
                _system(figures, system, given.n, given.broken)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        if given.only != "system":
            _fleet(figures, Path(folder), given.broken)
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(figures.table())
    print(json.dumps(figures.document()))
    return 0


def _system(figures: Figures, system: System, n: int, broken: int) -> None:
    with system.loaded() as load:
        _tell(figures, "kill", tries(system, n, direct=False))
        for name, process in DOWN:
            with system.stopped(process):
                _tell(figures, f"{name}_down", tries(system, broken, direct=False))
        with system.locked_store():
            _tell(figures, "store_down", tries(system, broken, direct=False, kills=False))
        with system.stopped("serve"):
            _tell(figures, "serve_down", tries(system, broken, direct=True))
        figures.more["answered_meanwhile"] = load.answered


def _tell(figures: Figures, name: str, done: Sequence[Try]) -> None:
    latencies = shown(done)
    told = [one.told_ms for one in done]
    figures.key(f"{name}_p99_ms", percentile(latencies, 99))
    figures.more[f"{name}_p50_ms"] = round(percentile(latencies, 50))
    figures.more[f"{name}_told_p99_ms"] = round(percentile(told, 99))
    recorded = sum(one.recorded for one in done)
    say(
        f"{name}: {len(done)} tries, shown p50 {percentile(latencies, 50):.0f} ms,"
        f" p99 {percentile(latencies, 99):.0f} ms, answer p99 {percentile(told, 99):.0f} ms,"
        f" {recorded} recorded at once"
    )


def _fleet(figures: Figures, folder: Path, count: int) -> None:
    verbs = [VERBS[number % len(VERBS)] for number in range(count)]
    with fleet_urls(FLEET) as (urls, gone):
        settings = configured(folder, urls)
        done = by_break_glass(settings, verbs) + by_operations(settings, urls, folder, verbs)
    listed = all(sorted(missed(report)) == sorted(gone) for _, report in done)
    figures.key("fleet_max_ms", 1000 * max(took_s for took_s, _ in done))
    figures.key("fleet_listed", float(listed))
    say(f"fleet: {len(done)} acts on {FLEET} replicas; exactly those 3 listed: {listed}")


if __name__ == "__main__":
    sys.exit(main())
