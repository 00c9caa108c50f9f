"""``make bench-judge``: how often the judge is wrong, how soon it is right, what never passes.

::

    no effect   a path of load lived once, its coins redrawn: every verdict is a false one
    effect      the candidate's steps take longer or shorter, or its cap follows a law
    skewed      harms that are rare, hidden in the spread, or thin
    rivals      four usual judges, on the same two replicas of the crossovers without an effect

The judge is the product's (``controller.judge``), the engine is ``benchmarks.queue_model``. Errors
are not in that model, so no hard trip fires; latency trips do. A trial that was not decided as it
should be counts as one that takes for ever; a quantile that falls among those is null.
What was lived stays in ``--progress`` and is not lived again. Last line: JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from benchmarks import traces
from benchmarks.figures import Figures, percentile, say, surroundings
from benchmarks.judging import plans, skewed
from benchmarks.judging.bounds import clustered_upper
from benchmarks.judging.errands import Errand, Lived, live
from benchmarks.rounds import Progress, code_digest
from controller.trials import Design
from signals.errors import Unavailable

AIMS = {
    "false_harmed_upper": "≤ 0.01 per trial, worst cell, trips included",
    "false_improved_upper": "≤ 0.01 per trial, worst cell",
    "crossover_10_median_s": "≤ 480: steps −10 %",
    "crossover_10_p95_s": "≤ 1,080",
    "switchback_10_median_s": "≤ 960",
    "switchback_20_median_s": "≤ 720: steps −20 %",
    "counterexamples_caught": "≥ 0.95 of streams, the worst of three",
    "crossover_harm_10_median_s": "≤ 540: steps +10 %",
    "crossover_harm_10_p95_s": "≤ 1,200",
    "switchback_harm_10_median_s": "≤ 1,200",
    "switchback_harm_10_p95_s": "≤ 3,000",
    "law_median_s": "≤ 1,500: a law in 80 s phases",
    "crossover_10_careful_median_s": "(none) steps −10 %, losses in 5 % of units excluded first",
    "skewed_improved": "0: share kept of rare losses, with no effect otherwise",
    "bought_improved": "0: share kept of rare losses, with gains otherwise",
    "bought_improved_careful": "≤ 0.01: as many, where losses in 5 % of units are excluded first",
    "samples_passed": "0: share of six against six kept",
}
SOURCES = (
    "signals",
    "policies",
    "controller/judge",
    "controller/trials.py",
    "engine/simulated/arrivals",
    "benchmarks/queue_model.py",
    "benchmarks/judging",
)
POWER: tuple[tuple[Design, float, str, str], ...] = (
    ("crossover", 0.9, "crossover_10", "IMPROVED"),
    ("switchback", 0.9, "switchback_10", "IMPROVED"),
    ("switchback", 0.8, "switchback_20", "IMPROVED"),
    ("crossover", 1.1, "crossover_harm_10", "HARMED"),
    ("switchback", 1.1, "switchback_harm_10", "HARMED"),
)


def main() -> int:
    """0 when everything was measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(
        description="How often the judge is wrong, and how soon right."
    )
    parser.add_argument("--paths", type=int, default=400, help="paths of load in each cell")
    parser.add_argument("--coins", type=int, default=25, help="redrawn on each without an effect")
    parser.add_argument("--power", type=int, default=200, help="trials of each effect")
    parser.add_argument("--streams", type=int, default=400, help="of each skewed harm")
    parser.add_argument("--workers", type=int, default=2, help="at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a minute's worth of everything")
    parser.add_argument("--progress", type=Path, help="where to go on from, and to")
    parser.add_argument("--report", action="store_true", help="live no path more: what is there")
    given = parser.parse_args()
    if given.quick:
        given.paths, given.coins, given.power, given.streams = 1, 10, 2, 10
    began_s, figures = time.monotonic(), Figures(AIMS)
    figures.more = surroundings(given.seed, given.quick, ["numpy", "scipy"])
    _introduce(given.paths, given.coins, given.power)
    progress = given.progress or Path(tempfile.gettempdir()) / "trimtab-bench-judge.jsonl"
    lived = _lived(_errands(given), progress, 0 if given.report else given.workers)
    _false(figures, [one for one in lived if one.plan.null])
    _power(figures, [one for one in lived if not one.plan.null])
    _rivals(figures, [one for one in lived if one.alarms])
    _skewed(figures, given.streams, given.seed)
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(figures.table())
    print(json.dumps(figures.document()))
    return 0


def _introduce(paths: int, coins: int, power: int) -> None:
    plan = plans.SWITCHBACK
    say(
        f"blocks {plan.block_s:g} s, washout {plan.washout_s:g} s, α {plan.alpha:g}, guards at"
        f" {plan.guard_alpha:g} with margin {plan.guards[0].margin:g}, {plan.min_units} to"
        f" {plan.max_units} units; primary {plan.primary}; {paths} paths × {coins} coins a cell,"
        f" {power} trials of each effect"
    )
    for world in (*plans.WORLDS, plans.LIGHTER, plans.AZURE, plans.LAW_WORLD):
        say(f"  {world}")
    say(f"  law: {plans.LAW}, blocks {plan.washout_s + plans.CYCLE_S:g} s, primary U")


def _errands(given: argparse.Namespace) -> list[Errand]:
    worlds = [world.name for world in plans.WORLDS]
    try:
        traces.folder()
        worlds.append(plans.AZURE.name)
    except Unavailable as error:
        say(f"no Azure load: {error}")
    seeds = range(given.seed * 1000, given.seed * 1000 + given.paths)
    power = range(given.seed * 1000 + 500, given.seed * 1000 + 500 + given.power)
    return [
        *(errand for seed in power for errand in _effects(seed)),
        *(
            errand
            for seed in seeds
            for world in worlds
            for errand in _nulls(world, seed, given.coins)
        ),
    ]


def _nulls(world: str, seed: int, coins: int) -> list[Errand]:
    """A path of each design on which nothing was changed."""
    cells: tuple[tuple[Design, bool], ...] = (
        ("switchback", False),
        ("crossover", False),
        ("crossover", True),
    )
    return [
        Errand(world=world, design=design, seed=seed, coins=coins, slower=slower)
        for design, slower in cells
    ]


def _effects(seed: int) -> list[Errand]:
    """A trial of each effect, one of them by a plan that excludes rare losses first, and a law."""
    name = plans.POWER_WORLD.name
    careful = Errand(
        world=name, design="crossover", seed=seed, coins=1, factor=0.9, rarest_loss=skewed.RARE
    )
    law = Errand(world=plans.LAW_WORLD.name, design="crossover", seed=seed, coins=1, law=True)
    return [
        *(
            Errand(world=world.name, design=design, seed=seed, coins=1, factor=factor)
            for world in (plans.POWER_WORLD, plans.LIGHTER)
            for design, factor, _, _ in POWER
        ),
        careful,
        law,
    ]


def _lived(wanted: Sequence[Errand], path: Path, workers: int) -> list[Lived]:
    """Every errand's outcome, from the file or lived now; without workers, what the file has."""
    progress = Progress(path, code_digest(SOURCES), Lived)
    done = {plan: found for (plan, _), found in progress.done().items()}
    found = [done[errand] for errand in wanted if errand in done]
    rest = [errand for errand in wanted if errand not in done]
    say(f"{len(found)} paths were lived before, {len(rest)} are to be; progress in {path}")
    if not workers:
        return found
    began_s = time.monotonic()
    # A path holds 100,000 requests and no cycle among them: looking for one is a sixth of the time
    with ProcessPoolExecutor(workers, initializer=gc.disable) as pool:
        for count, job in enumerate(as_completed([pool.submit(live, one) for one in rest]), 1):
            found.append(job.result())
            progress.add(job.result(), 0)
            if count % 100 == 0:
                say(f"  {count} of {len(rest)} paths, {time.monotonic() - began_s:.0f} s")
    return found


def _cells(lived: Iterable[Lived]) -> dict[str, list[Lived]]:
    cells: dict[str, list[Lived]] = {}
    for one in sorted(lived, key=lambda one: (one.plan.cell, one.plan.seed)):
        cells.setdefault(one.plan.cell, []).append(one)
    return cells


def _false(figures: Figures, lived: Sequence[Lived]) -> None:
    say(
        f"\n{'no effect':<58} {'ok':>6} {'trials':>7} {'HARMED':>8} {'≤':>7} {'/h':>8}"
        f" {'IMPROVED':>8} {'≤':>7} {'/h':>8} {'trips':>6} {'doubled':>7}"
    )
    for cell, found in _cells(lived).items():
        tried = [one for path in found for one in path.outcomes]
        hours = math.fsum(one.hours for one in tried)
        told = []
        for verdict in ("HARMED", "IMPROVED"):
            events = [sum(one.verdict == verdict for one in path.outcomes) for path in found]
            upper = clustered_upper(events, [len(path.outcomes) for path in found])
            told.append(f"{sum(events) / len(tried):8.3%} {upper:7.3%} {sum(events) / hours:8.5f}")
            key = f"false_{verdict.lower()}_upper"
            figures.key(key, max(upper, figures.keys.get(key, 0.0)))
            figures.more.setdefault(f"{key}_by_cell", {})[cell] = round(upper, 5)
        say(
            f"{cell:<58} {_mean(path.attainment for path in found):6.1%} {len(tried):7} {told[0]}"
            f" {told[1]} {_mean(one.trips >= 3 for one in tried):6.1%}"
            f" {_mean(one.doubled for one in tried):7.1%}"
        )


def _power(figures: Figures, lived: Sequence[Lived]) -> None:
    say(
        f"\n{'effect':<58} {'ok':>6} {'trials':>7} {'as it should':>13}"
        f" {'median':>8} {'p95':>8}  min"
    )
    aims = {(design, factor): (key, verdict) for design, factor, key, verdict in POWER}
    for cell, found in _cells(lived).items():
        plan = found[0].plan
        key, right = aims.get((plan.design, plan.factor), ("law", "IMPROVED"))
        key += "" if plan.rarest_loss is None else "_careful"
        key += "" if plan.world != plans.LIGHTER.name else "_lighter"
        tried = [one for path in found for one in path.outcomes]
        took_s = [60 * one.minutes if one.verdict == right else math.inf for one in tried]
        told = []
        for name, share in (("median", 50), ("p95", 95)):
            at_s = _quantile(took_s, share)
            told.append("   never" if at_s is None else f"{at_s / 60:8.1f}")
            figures.more.setdefault("effects_s", {})[f"{cell}: {name}"] = at_s
            if at_s is not None and f"{key}_{name}_s" in AIMS:
                figures.key(f"{key}_{name}_s", at_s)
        verdicts = sorted({one.verdict for one in tried})
        counts = {name: sum(one.verdict == name for one in tried) for name in verdicts}
        figures.more.setdefault("verdicts", {})[cell] = counts
        found_share = counts.get(right, 0) / len(tried)
        say(
            f"{cell:<58} {_mean(path.attainment for path in found):6.1%} {len(tried):7}"
            f" {found_share:13.1%} {' '.join(told)}  {counts}"
        )


def _rivals(figures: Figures, lived: Sequence[Lived]) -> None:
    say("\nrivals: alarms in an hour in which nothing was changed")
    for cell, found in _cells(lived).items():
        shares = {name: _mean(one.alarms[name] for one in found) for name in found[0].alarms}
        told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        say(f"{cell:<58} {told}")
        figures.more.setdefault("rivals", {})[cell] = shares


def _skewed(figures: Figures, streams: int, seed: int) -> None:
    say(f"\n{'streams to 500 units':<46} IMPROVED       ≤   HARMED  by sign  median units")
    every = (skewed.NOTHING, *skewed.HARMS, *skewed.BOUGHT, *skewed.COUNTER_EXAMPLES)
    wanted = [(kind, False) for kind in every]
    wanted += [(kind, True) for kind in (*skewed.HARMS, *skewed.BOUGHT)]
    told = {}
    for kind, careful in wanted:
        told[kind, careful] = one = skewed.tell(kind, streams, seed, careful=careful)
        say(
            f"{one.name + (', careful' if careful else ''):<46} {one.improved:8.1%}"
            f" {one.improved_upper:7.2%} {one.harmed:8.1%} {one.by_sign:8.1%}  {one.units or '-'}"
        )
    published = [told[kind, False] for kind in skewed.COUNTER_EXAMPLES]
    harms = [told[kind, False] for kind in skewed.HARMS]
    bought = {careful: [told[kind, careful] for kind in skewed.BOUGHT] for careful in (False, True)}
    figures.key("counterexamples_caught", min(one.harmed for one in published))
    figures.key("skewed_improved", max(one.improved for one in (*published, *harms)))
    figures.key("bought_improved", max(one.improved for one in bought[False]))
    figures.key("bought_improved_careful", max(one.improved for one in bought[True]))
    figures.key("samples_passed", max(one.samples_passed for one in published))
    figures.more["streams"] = [msgspec.to_builtins(one) for one in told.values()]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def _quantile(values: Sequence[float], share: float) -> float | None:
    """None where it falls among those that take for ever."""
    ranked = sorted(values)
    place = math.ceil(share / 100 * len(ranked)) - 1
    return None if math.isinf(ranked[place]) else percentile([ranked[place]], 50)


if __name__ == "__main__":
    sys.exit(main())
