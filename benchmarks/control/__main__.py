"""``python -m benchmarks.control``: every contender through every scenario. See the package's page.

The last line is one JSON object: minima over scenarios of means over seeds (null: not run).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from concurrent.futures import Future, ProcessPoolExecutor
from os import cpu_count

import numpy as np

from benchmarks.control.contenders import Life, fixed, laws, looped, statics
from benchmarks.control.scenarios import SCENARIOS, Scenario
from benchmarks.figures import Figures, say, surroundings

AIMS = {
    "vs_oracle_min": "≥ 0.95",
    "vs_best_static_headroom_min": "≥ 1.10 where the headroom is ≥ 1.15",
    "vs_default_min": "≥ 0.97",
    "null_kept": "0",
    "kept_per_hour_stationary": "≤ 2",
}
HEADROOM = 1.15


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.control", description="What the loop is worth"
    )
    parser.add_argument("--only", choices=SCENARIOS, help="this scenario alone; unset = all")
    parser.add_argument("--seeds", type=int, default=5, help="lives of each contender")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--quick", action="store_true", help="one seed, for a look")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0 when everything ran."""
    given = options(arguments)
    seeds = range(given.seed, given.seed + (1 if given.quick else given.seeds))
    told = Figures(AIMS)
    told.more |= surroundings(given.seed, given.quick, ("numpy", "msgspec"))
    began_s, found = time.monotonic(), {}
    with ProcessPoolExecutor(cpu_count()) as pool:
        for name, scenario in SCENARIOS.items():
            if given.only in (None, name):
                found[name] = compare(pool, scenario, seeds)
    told.more["wall_s"] = round(time.monotonic() - began_s)
    told.more["scenarios"] = {name: means for name, (means, _) in found.items()}
    summarise(told, found)
    say(told.table())
    print(json.dumps(told.document()))
    return 0


Compared = tuple[dict[str, float], list[Life]]


def compare(pool: ProcessPoolExecutor, scenario: Scenario, seeds: range) -> Compared:
    """Mean U of each contender, and the loop's lives."""
    say(f"\n({scenario.name}) {scenario.words}: {scenario.life_s / 3600:g} h, scored after "
        f"{scenario.adapts_s / 3600:g} h; seeds {list(seeds)}")  # fmt: skip
    jobs: list[Future[Life]] = []
    for seed in seeds:
        jobs.append(pool.submit(looped, scenario, seed))
        jobs.append(pool.submit(fixed, scenario, "default", None, seed))
        for name, setting in {**statics(), **laws()}.items():
            jobs.append(pool.submit(fixed, scenario, name, setting, seed))
    lives: defaultdict[str, list[Life]] = defaultdict(list)
    for job in jobs:
        life = job.result()
        lives[life.contender].append(life)
    means = {name: round(float(np.mean([one.u for one in of])), 4) for name, of in lives.items()}
    for name in sorted(means, key=lambda one: -means[one]):
        us = ", ".join(f"{one.u:.3f}" for one in lives[name])
        live = float(np.mean([one.live for one in lives[name]]))
        say(f"  {name:<10} U {means[name]:.3f} ({us}); live {live:.1%}")
    for life in lives["loop"]:
        say(f"  loop, whole life: U {life.u_whole:.3f}; {list(life.verdicts)}; kept {life.kept}")
    return means, lives["loop"]


def summarise(told: Figures, found: dict[str, Compared]) -> None:
    """The keys."""
    oracles, statics_, defaults, headrooms = [], [], [], {}
    for name, (means, loops) in found.items():
        loop = means["loop"]
        static = max(u for who, u in means.items() if who.startswith("static"))
        oracle = max(static, *(u for who, u in means.items() if who.startswith("law")))
        headrooms[name] = round(oracle / static, 3)
        oracles.append(loop / oracle)
        defaults.append(loop / means["default"])
        if oracle / static >= HEADROOM:
            statics_.append(loop / static)
        if SCENARIOS[name].nothing_to_gain:
            told.key("null_kept", sum(len(life.kept) for life in loops))
    told.more["headroom"] = headrooms
    told.key("vs_oracle_min", min(oracles))
    told.key("vs_default_min", min(defaults))
    if statics_:
        told.key("vs_best_static_headroom_min", min(statics_))
    late_h = {name: (one.life_s - one.adapts_s) / 3600 for name, one in SCENARIOS.items()}
    rates = [
        float(np.mean([life.kept_late for life in loops])) / late_h[name]
        for name, (_, loops) in found.items()
    ]
    told.key("kept_per_hour_stationary", max(rates))


if __name__ == "__main__":
    raise SystemExit(main())
