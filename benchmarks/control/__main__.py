"""``python -m benchmarks.control``: every contender through every scenario. See the package's page.

The last line is one JSON object: minima over scenarios of means over seeds (null: not run).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from benchmarks.control import plotting
from benchmarks.control.action_set import fixed
from benchmarks.control.contenders import live
from benchmarks.control.driving import RIVALS
from benchmarks.control.lives import Errand, Life
from benchmarks.control.scenario import Scenario
from benchmarks.control.scenarios import SCENARIOS, left_out
from benchmarks.control.summing import (
    HEADROOM,
    LOOP,
    ORACLE,
    UNSAFE_WORDS,
    Compared,
    compare,
    timetable,
)
from benchmarks.figures import Figures, say, surroundings
from benchmarks.rounds import Progress, code_digest

AIMS = {
    "vs_oracle_min": "≥ 0.95",
    "vs_best_static_headroom_min": "≥ 1.10 where the headroom is ≥ 1.15",
    "vs_default_min": "≥ 0.97, whole life and after adapting",
    "unsafe_share": "≤ 0.005, the worst scenario",
    "null_kept": "0",
    "kept_per_hour_stationary": "≤ 2",
    "beats_random_search": "≥ 1: loop over random search, the worst scenario",
    "beats_aimd": "≥ 1",
    "beats_formula": "≥ 1",
}
SOURCES = ("signals", "policies", "engine/simulated", "engine/knobs.py", "controller")
LOADS = ("engine/simulated", "signals/features", "benchmarks/control", "controller/learner")
"""What lives without a controller depend on."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.control", description="What the loop is worth"
    )
    parser.add_argument("--only", help="these scenarios alone, by letter: c,j; unset = all")
    parser.add_argument("--seeds", type=int, default=5, help="lives of each contender")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--quick", action="store_true", help="one seed, for a look")
    parser.add_argument("--workers", type=int, default=2, help="lives at once")
    parser.add_argument("--progress", type=Path, help="where to go on from, and to")
    parser.add_argument("--figures", type=Path, help="folder of the PNG figures; unset = none")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0 when everything ran."""
    given = options(arguments)
    names = [name for name in SCENARIOS if given.only is None or name in given.only.split(",")]
    missing = left_out(names)
    for name, why in missing.items():
        say(f"({name}) is left out: {why}")
    chosen = [SCENARIOS[name] for name in names if name not in missing]
    seeds = range(given.seed, given.seed + (1 if given.quick else given.seeds))
    told = Figures(AIMS)
    told.more |= surroundings(given.seed, given.quick, ("numpy", "msgspec"))
    began_s = time.monotonic()
    path = given.progress or Path(tempfile.gettempdir()) / "trimtab-bench-control.jsonl"
    say(f"unsafe: {UNSAFE_WORDS}")
    found = lived(chosen, seeds, path, given.workers)
    compared = [compare(scenario, found[scenario.name]) for scenario in chosen]
    for scenario, one in zip(chosen, compared, strict=True):
        tell(scenario, one)
        if given.figures:
            lives = found[scenario.name]
            plotting.bars(scenario, one, given.figures)
            plotting.life(scenario, lives, one, given.figures)
    summarise(told, chosen, compared)
    told.more |= {"left_out": missing, "unsafe": UNSAFE_WORDS}
    told.more["wall_s"] = round(time.monotonic() - began_s)
    say(told.table())
    print(json.dumps(told.document()))
    return 0


def lived(
    chosen: Sequence[Scenario], seeds: range, path: Path, workers: int
) -> dict[str, list[Life]]:
    """Every life, from the file or lived now; the oracle's once the others show what is best."""
    lives: dict[str, list[Life]] = {scenario.name: [] for scenario in chosen}
    with ProcessPoolExecutor(workers) as pool:
        errands = [errand for scenario in chosen for errand in planned(scenario, seeds)]
        for life in _outcomes(pool, errands, path):
            lives[life.plan.scenario].append(life)
        oracles = []
        for scenario in chosen:
            slots = timetable(scenario, lives[scenario.name])
            if len(slots) > 1:
                oracles += [
                    Errand(scenario=scenario.name, contender=ORACLE, seed=seed, slots=slots)
                    for seed in seeds
                ]
        for life in _outcomes(pool, oracles, path):
            lives[life.plan.scenario].append(life)
    return lives


def planned(scenario: Scenario, seeds: range) -> list[Errand]:
    """Everybody's life but the oracle's; the loop's first, for they take longest."""
    return [
        Errand(scenario=scenario.name, contender=name, seed=seed)
        for seed in seeds
        for name in (LOOP, *fixed(scenario), *RIVALS)
    ]


def _outcomes(pool: ProcessPoolExecutor, errands: Sequence[Errand], path: Path) -> list[Life]:
    """From the file where they were lived by this very code; else lived now, and written there."""
    files = {True: Progress(path, code_digest(SOURCES + LOADS), Life)}
    files[False] = Progress(path, code_digest(LOADS), Life)
    done = {
        plan: life
        for of_loop, file in files.items()
        for (plan, _), life in file.done().items()
        if (plan.contender == LOOP) == of_loop
    }
    found = [done[errand] for errand in errands if errand in done]
    rest = [errand for errand in errands if errand not in done]
    say(f"{len(found)} lives were lived before, {len(rest)} are to be; progress in {path}")
    began_s = time.monotonic()
    for count, job in enumerate(as_completed([pool.submit(live, one) for one in rest]), 1):
        life = job.result()
        found.append(life)
        files[life.plan.contender == LOOP].add(life, 0)
        if life.plan.contender == LOOP or count % 50 == 0:
            plan, passed_s = life.plan, time.monotonic() - began_s
            say(f"  {count} of {len(rest)} lives, {passed_s:.0f} s: ({plan.scenario})"
                f" {plan.contender}, seed {plan.seed}")  # fmt: skip
    return found


def tell(scenario: Scenario, one: Compared) -> None:
    """A scenario's table."""
    stretches = ", ".join(f"{a / 3600:.2f} to {b / 3600:.2f} h" for a, b in scenario.scored)
    say(f"\n({scenario.name}) {scenario.words}: {scenario.life_s / 3600:g} h, scored {stretches};"
        f" seeds {list(one.seeds)}; headroom {one.headroom:.3f}"
        f" ({one.oracle} over {one.best_static})")  # fmt: skip
    for name in sorted(one.u, key=lambda name: -one.u[name].value):
        u, ever = one.u[name], one.whole[name]
        unsafe = f"; unsafe {one.unsafe[name]:.2%}" if name in one.unsafe else ""
        say(f"  {name:<14} U {u.value:.3f} [{u.low:.3f}, {u.high:.3f}];"
            f" whole life {ever.value:.3f}{unsafe}")  # fmt: skip
    if LOOP in one.u:
        say(f"  the loop: {one.ratios}; kept {one.kept}; {one.kept_per_hour:.2f} kept an hour;"
            f" verdicts {one.verdicts}; regret {one.regret:.2f} U·h")  # fmt: skip


def summarise(told: Figures, chosen: Sequence[Scenario], compared: Sequence[Compared]) -> None:
    """The keys: the worst scenario's mean over seeds."""
    told.more["scenarios"] = [msgspec.to_builtins(one) for one in compared]
    told.more["headroom"] = {one.scenario: one.headroom for one in compared}
    both = list(zip(chosen, compared, strict=True))
    with_room = [one.ratios["best_static"] for one in compared if one.headroom >= HEADROOM]
    still = [one.kept_per_hour for scenario, one in both if scenario.stationary]
    nothing = [
        sum(len(kept) for kept in one.kept) for scenario, one in both if scenario.nothing_to_gain
    ]
    for key, values, worst in (
        ("vs_oracle_min", [one.ratios["oracle"] for one in compared], min),
        ("vs_best_static_headroom_min", with_room, min),
        ("vs_default_min", [one.ratios["default"] for one in compared], min),
        ("unsafe_share", [one.unsafe[LOOP] for one in compared], max),
        ("null_kept", [float(count) for count in nothing], max),
        ("kept_per_hour_stationary", still, max),
        ("beats_random_search", [one.ratios["random_search"] for one in compared], min),
        ("beats_aimd", [one.ratios["aimd"] for one in compared], min),
        ("beats_formula", [one.ratios["formula"] for one in compared], min),
    ):
        if values and not any(math.isnan(value) for value in values):
            told.key(key, worst(values))


if __name__ == "__main__":
    raise SystemExit(main())
