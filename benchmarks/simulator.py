"""How many times faster than real time the simulated engine lives: ``make bench-simulator``.

Each load is lived for an hour of simulated time in one thread. ``azure``: 5.4 requests a second of
1,020 prompt and 210 output tokens on average, as in the hour of Azure's conversation trace.
``mix``: the small model's chats in phases of 80 s beside batch jobs that never run out. Then the
mix under a law, ``azure`` with a quarter of the memory that it would fill, with a prefix cache, and
on four replicas behind a least-loaded router (four times the requests).

Requests are drawn before the clock starts: the engine is measured, not the generator. What a reader
costs (rows and seconds of the whole hour) is told beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.figures import Figures, say, surroundings
from engine.simulated.arrivals.flood import backlog, batch
from engine.simulated.arrivals.kinds import LIVE
from engine.simulated.arrivals.lengths import LogNormal
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged, window
from engine.simulated.arrivals.waves import phases
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Arrivals
from engine.simulated.spec import PREFIX_RETENTION, ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.laws import Law, LawStep
from policies.runtime_config import Patch, SettingChange
from signals.events import MICROS
from signals.settings import Slo

AIMS = {
    "real_time_ratio": "≥ 1,000: the least of all loads, by the wall clock",
    "azure_ratio": "≥ 1,000",
    "mix_ratio": "≥ 1,000",
    "cpu_ratio": "the least of all loads, by processor time: what an idle machine gives",
    "steps_per_s": "engine steps a real second, the least of all loads",
}
SLOS = {"live": Slo(ttft_ms=1000, tpot_ms=50), "batch": Slo(e2e_ms=60_000)}
LARGE = ReplicaSpec(
    step_times=StepTimes(
        base_us=20_000, per_decode_us=200, per_prefill_us=40, per_context_us=0.05, noise_sd=0.05
    )
)
SMALL = ReplicaSpec(
    step_times=StepTimes(base_us=18_100, per_decode_us=1_290, per_prefill_us=300, noise_sd=0.05),
    kv_blocks=2048,
)
AZURE_LENGTHS = LogNormal(
    prompt_median_tokens=620, prompt_sd=1.0, output_median_tokens=145, output_sd=0.86
)
LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=64,
    steps=(LawStep(above=0, value=8),),
)


def azure(rng: np.random.Generator, *, times: float = 1.0) -> Arrivals:
    """The means of the trace, and a rate that wanders."""
    load = Load(kind=LIVE, per_s=5.4 * times, lengths=AZURE_LENGTHS, load_sd=0.2)
    return poisson(load, rng)


def mix(rng: np.random.Generator) -> Arrivals:
    """Chats for 80 s, none for 80 s; batch jobs queue all the time."""
    chats = Load(kind=LIVE, per_s=3.0, load_sd=0.15)
    return merged(phases(chats, rng, on_s=80, off_s=80), backlog(batch(1.5), rng, jobs=500))


def shared(rng: np.random.Generator) -> Arrivals:
    """Sixty texts of 512 tokens that two thirds of the prompts begin with."""
    for offered in azure(rng):
        if offered.prompt_tokens > 512:
            yield replace(offered, prefix=(int(rng.integers(60)),))
        else:
            yield offered


class World(Struct, frozen=True, kw_only=True):
    """A load and the engine that it comes to."""

    name: str
    load: Callable[[np.random.Generator], Arrivals]
    spec: ReplicaSpec
    replicas: int = 1
    law: Law | None = None


WORLDS = (
    World(name="azure", load=azure, spec=LARGE),
    World(name="mix", load=mix, spec=SMALL),
    World(name="mix, law", load=mix, spec=SMALL, law=LAW),
    World(name="azure, little memory", load=azure, spec=replace(LARGE, kv_blocks=1100)),
    World(name="azure, prefixes", load=shared, spec=replace(LARGE, capacity_retention=50)),
    World(
        name="azure × 4, four replicas",
        load=lambda rng: azure(rng, times=4.0),
        spec=LARGE,
        replicas=4,
    ),
)


class Lived(Struct, frozen=True, kw_only=True):
    """What one world's life took. ``read_s``: rendering every row and second of it."""

    requests: int
    finished: int
    steps: int
    preempted: int
    wall_s: float
    cpu_s: float
    read_s: float


def main(arguments: list[str] | None = None) -> int:
    """0 when everything was measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(description="Simulated over real time.")
    parser.add_argument("--seconds", type=int, default=3600, help="simulated seconds a load")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    figures = Figures(AIMS)
    figures.more = surroundings(given.seed, given.seconds < 3600, ["numpy", "msgspec"])
    say(f"{figures.more['processor']}, load average {figures.more['load_average']}")
    say(f"{given.seconds:,} simulated seconds a load, seed {given.seed}\n")
    say(f"{'':<26}{'requests':>9}{'ended':>8}{'steps':>10}{'put back':>9}"
        f"{'wall s':>8}{'× real':>8}{'read s':>8}")  # fmt: skip
    lived = {world.name: _live(world, given.seconds, given.seed) for world in WORLDS}
    ratio = {name: given.seconds / one.wall_s for name, one in lived.items()}
    figures.key("real_time_ratio", min(ratio.values()))
    figures.key("azure_ratio", ratio["azure"])
    figures.key("mix_ratio", ratio["mix"])
    figures.key("cpu_ratio", min(given.seconds / one.cpu_s for one in lived.values()))
    figures.key("steps_per_s", min(one.steps / one.wall_s for one in lived.values()))
    figures.more["loads"] = {name: round(value) for name, value in ratio.items()}
    say("\n" + figures.table())
    print(json.dumps(figures.document()))
    return 0


def _live(world: World, seconds: int, seed: int) -> Lived:
    arrivals = list(window(world.load(np.random.default_rng(seed)), 0.0, seconds))
    names = [f"r{number}" for number in range(world.replicas)]
    fleet = Fleet(
        replicas=dict.fromkeys(names, world.spec),
        arrivals=iter(arrivals),
        slos=SLOS,
        seed=seed,
        router="least_loaded",
    )
    for name in names:
        _set_up(fleet, name, world)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    fleet.run(seconds * MICROS)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    began_s = time.perf_counter()
    rows = fleet.requests(-1, fleet.now_us)
    told = fleet.seconds(-1, fleet.now_us)
    read_s = time.perf_counter() - began_s
    engines = [fleet.replica(name).lines for name in names]
    lived = Lived(
        requests=len(rows),
        finished=sum(row.finished_us is not None for row in rows),
        steps=sum(second.steps.n for second in told),
        preempted=sum(lines.preempted for lines in engines),
        wall_s=wall_s,
        cpu_s=cpu_s,
        read_s=read_s,
    )
    say(f"{world.name:<26}{lived.requests:>9,}{lived.finished:>8,}{lived.steps:>10,}"
        f"{lived.preempted:>9,}{wall_s:>8.2f}{seconds / wall_s:>8,.0f}{read_s:>8.2f}")  # fmt: skip
    return lived


def _set_up(fleet: Fleet, name: str, world: World) -> None:
    """Boot settings, but for the law and half of the cache."""
    settings = []
    if world.law is not None:
        settings.append(SettingChange(knob="active_cap", law=world.law))
    if world.spec.capacity_retention:
        half = world.spec.capacity_retention // 2
        settings.append(SettingChange(knob=PREFIX_RETENTION, value=half))
    seen = fleet.replica(name).view()
    patch = Patch(change_id="set-up", epoch=0, expected=seen.expected, settings=tuple(settings))
    fleet.replica(name).patch(patch)


if __name__ == "__main__":
    sys.exit(main())
