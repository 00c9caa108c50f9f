"""``make bench-drift``: how often drift detectors cry wolf, and how soon they see an engine change.

Paths of a simulated engine (``queue_model``) whose load wanders for minutes at a time. A figure per
30 s block: the mean log TTFT of the chats that arrived in it. Nothing changes on the first paths:
every alarm is false. On the others each step takes 10 or 20 % longer from the second hour on. The
same detectors, with the same settings, look at the latency itself (standardised by its own running
mean and deviation) and at the residual given the context (arrivals of this block and the one
before). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from benchmarks.figures import Figures, median, say, surroundings
from benchmarks.queue_model import LIVE, QueueModel, World
from controller.drift.context import ContextResidual
from controller.drift.watch import Watch, start_blocked
from signals.events import MICROS

BLOCK_S, HOUR_BLOCKS = 30, 120
WARM_BLOCKS = 60
WORLDS = (
    World(name="wanders .15", chats_per_s=8.0, load_sd=0.15),
    World(name="wanders .4", chats_per_s=8.0, load_sd=0.4),
)
DETECTORS = ("page_hinkley", "two_window", "either")
FACTORS = (1.1, 1.2)
AIMS = {
    "page_hinkley_false_per_hour": "< raw",
    "page_hinkley_raw_false_per_hour": "1.0 to 1.4 were seen of ADWIN",
    "two_window_false_per_hour": "< raw",
    "two_window_raw_false_per_hour": "1.0 to 1.4 were seen of ADWIN",
    "either_false_per_hour": "no aim",
    "page_hinkley_20_median_s": "no aim",
    "two_window_20_median_s": "no aim",
}


Alarms = Mapping[str, Sequence[int]]
"""By detector, the blocks at which its alarms begin."""


class Block(Struct, frozen=True):
    """One block's exogenous context and its figure; no chat arrived: NaN."""

    context: tuple[float, ...]
    figure: float


def path(world: World, seed: int, *, hours: float, factor: float = 1.0) -> list[Block]:
    """The blocks of one life; steps take ``factor`` times as long from the second hour on."""
    engine, n, found = QueueModel(world, seed), round(hours * HOUR_BLOCKS), []
    for index in range(n):
        slow = factor if index >= HOUR_BLOCKS else 1.0
        engine.run((index + 1) * BLOCK_S * MICROS, factor=slow)
    before = 0.0
    for index in range(n):
        bounds = (index * BLOCK_S * MICROS, (index + 1) * BLOCK_S * MICROS)
        chats = [one for one in engine.arrived(*bounds) if one.intent == LIVE]
        end_us = n * BLOCK_S * MICROS
        logs = [math.log(max(1, (one.first_us or end_us) - one.arrival_us)) for one in chats]
        load = math.log1p(len(chats))
        figure = sum(logs) / len(logs) if logs else math.nan
        found.append(Block((load, before), figure))
        before = load
    return found


def alarms(blocks: Sequence[Block], *, raw: bool) -> dict[str, list[int]]:
    """The blocks at which an alarm begins, of each detector and of both together."""
    watch = Watch(figure="ttft:live", model=ContextResidual(whiten=not raw))
    was = dict.fromkeys(DETECTORS, False)
    found: dict[str, list[int]] = {name: [] for name in DETECTORS}
    for index, block in enumerate(blocks):
        watch = watch.update(() if raw else block.context, block.figure)
        now = {
            "page_hinkley": watch.page_hinkley.drifted,
            "two_window": watch.two_window.drifted,
            "either": bool(start_blocked([watch])),
        }
        for name, drifted in now.items():
            if drifted and not was[name]:
                found[name].append(index)
        was = now
    return found


def measure(figures: Figures, *, paths: int, hours: float, seed: int) -> None:
    """Every world, way and detector; the keys are of the first world, the rest is context."""
    for number, world in enumerate(WORLDS):
        same = [path(world, seed + at, hours=hours) for at in range(paths)]
        slow = {
            factor: [path(world, seed + at, hours=2, factor=factor) for at in range(paths)]
            for factor in FACTORS
        }
        say(f"{world.name}: {world.chats_per_s:g} chats/s, cap {world.cap}, {paths} paths")
        for raw in (False, True):
            false = [alarms(blocks, raw=raw) for blocks in same]
            seen = {
                factor: [alarms(one, raw=raw) for one in lives] for factor, lives in slow.items()
            }
            for name in DETECTORS:
                told = _told(name, false, seen, watched_h=hours - WARM_BLOCKS / HOUR_BLOCKS)
                way = f"{name}_raw" if raw else name
                say(f"  {way:<18} " + ", ".join(f"{key} {value}" for key, value in told.items()))
                figures.more.setdefault("worlds", {}).setdefault(world.name, {})[way] = told
                if number == 0:
                    _keep(figures, way, told)


def _told(
    name: str,
    false: Sequence[Alarms],
    seen: Mapping[float, Sequence[Alarms]],
    *,
    watched_h: float,
) -> dict[str, float | None]:
    """False alarms an hour, and per slowing the median delay and the share that was never seen."""
    wrong = sum(at >= WARM_BLOCKS for found in false for at in found[name])
    told: dict[str, float | None] = {"false_per_hour": round(wrong / watched_h / len(false), 3)}
    for factor, lives in seen.items():
        delays = [_delay_s(found[name]) for found in lives]
        percent, middle = round(100 * (factor - 1)), median(delays)
        told[f"{percent}_median_s"] = middle if math.isfinite(middle) else None
        told[f"{percent}_missed"] = round(sum(map(math.isinf, delays)) / len(delays), 3)
    return told


def _delay_s(begun: Sequence[int]) -> float:
    """From the change to the first alarm that begins after it; infinite when there is none."""
    after = [at for at in begun if at >= HOUR_BLOCKS]
    return (after[0] - HOUR_BLOCKS + 1) * BLOCK_S if after else math.inf


def _keep(figures: Figures, way: str, told: Mapping[str, float | None]) -> None:
    """Those that are keys of the last line; what was never seen stays without a figure."""
    for key, value in told.items():
        name = f"{way}_{key}"
        if name in figures.aims and value is not None:
            figures.key(name, value)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few paths: whether it runs at all")
    parser.add_argument("--paths", type=int, default=20)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    figures = Figures(AIMS)
    paths, hours = (2, 1.5) if asked.quick else (asked.paths, asked.hours)
    measure(figures, paths=paths, hours=hours, seed=asked.seed)
    figures.more |= surroundings(asked.seed, asked.quick, ("numpy",))
    figures.more |= {"paths": paths, "hours": hours, "block_s": BLOCK_S}
    say(figures.table())
    say(json.dumps(figures.document()))


if __name__ == "__main__":
    main()
