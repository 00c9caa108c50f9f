"""How often the judge is wrong, and how long it takes to be right: thousands of simulated trials.

The judge is the product's own, from block values to verdict (``controller.judge``); the engine and
its load are ``benchmarks.queue_model``. In worlds with **no effect** a path of load is lived once
and the coins are redrawn on it many times, since nothing that happens depends on them; every
verdict but INCONCLUSIVE is a false one. In worlds with an **effect** the candidate's steps take a
known share longer or shorter, and each trial lives its own path.

Not in it: trips (they act on errors and crashes, which the model has not) and void units.

The last line is JSON: ``false_improved`` and ``false_harmed`` are the worst shares among the worlds
without effect, ``…_upper`` their upper 95 % bounds, α is what was promised of each.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import msgspec
import numpy as np
from scipy.special import betaincinv

from benchmarks.queue_model import BATCH, LIVE, QueueModel, World
from controller.judge.carry_over import carry_over, plan_in_force
from controller.judge.values import block_values, unit_differences
from controller.judge.verdict import rule_on
from controller.trials import (
    Block,
    BlockValues,
    GuardPlan,
    IntentPlan,
    Trial,
    TrialPlan,
    Unit,
    arms,
)
from policies.runtime_config import Arm
from policies.settings import Setting
from signals.events import MICROS

ALPHA = 0.01
WARM_UP_S = 30
VERDICTS = ("IMPROVED", "HARMED", "INCONCLUSIVE")
QUIET = World(name="quiet", chats_per_s=4.0, load_sd=0.15)
SWINGS = World(name="quiet, swinging", chats_per_s=4.0, load_sd=0.4)
KNEE = World(name="near the knee", chats_per_s=13.0, load_sd=0.15)
KNEE_SWINGS = World(name="near the knee, swinging", chats_per_s=10.5, load_sd=0.4)
OVER = World(name="overloaded", chats_per_s=15.5, load_sd=0.15)
OVER_SWINGS = World(name="overloaded, swinging", chats_per_s=15.0, load_sd=0.4)
NO_EFFECT = (QUIET, SWINGS, KNEE, KNEE_SWINGS, OVER, OVER_SWINGS)
EFFECTS = ((QUIET, 0.9), (QUIET, 0.8), (QUIET, 1.1), (KNEE, 0.9), (KNEE, 1.1), (KNEE, 1.2))

PLAN = TrialPlan(
    id="tri",
    policy_id="pol",
    target="chat",
    knob="active_cap",
    hypothesis="step times change",
    scale=1.0,
    guards=tuple(
        GuardPlan(metric=f"attainment:{intent}", margin=0.05, scale=0.5) for intent in (BATCH, LIVE)
    ),
    alpha=ALPHA,
    guard_alpha=0.05,
    min_units=7,
    max_units=60,
    block_s=45.0,
    washout_s=15.0,
    cycle_s=None,
    min_requests=30,
    seed=0,
    maximize=BATCH,
    reference_tokens_per_s=500.0,
    intents=(
        IntentPlan(name=BATCH, target_attainment=0.9, deadline_s=5.0, ttft_slo_s=None),
        IntentPlan(name=LIVE, target_attainment=0.97, deadline_s=3.0, ttft_slo_s=1.0),
    ),
    max_error_rate=0.05,
    min_errors=20,
    baseline=Setting(value=16),
    candidate=Setting(value=16),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one trial ended. ``live``: attainment of live over all its blocks."""

    verdict: str
    units: int
    minutes: float
    live: float


@dataclass
class Path:
    """One path of load, lived as far as it was asked for."""

    model: QueueModel
    factor: float
    seen: dict[tuple[float, float], BlockValues] = field(default_factory=dict)

    def block(self, at_s: float, plan: TrialPlan, arm: Arm, index: int) -> BlockValues:
        """What a block that begins at ``at_s`` shows. Remembered where the arm changes nothing."""
        key = (at_s, plan.block_s)
        if self.factor == 1.0 and key in self.seen:
            return self.seen[key]
        began_us = round((WARM_UP_S + at_s) * MICROS)
        ended_us = began_us + round(plan.block_s * MICROS)
        self.model.run(began_us)
        self.model.run(ended_us, factor=self.factor if arm == "candidate" else 1.0)
        requests = self.model.arrived(began_us, ended_us)
        values = block_values(
            plan,
            Block(index=index, arm=arm, began_us=began_us),
            [request.row(plan.id, index) for request in requests],
            [
                msgspec.structs.replace(second, trial=plan.id, block=index)
                for second in self.model.between(began_us, ended_us)
            ],
        )
        if isinstance(values, str):
            raise TypeError(f"the load is too thin for a trial: {values}")
        self.seen[key] = values
        return values


def try_out(path: Path, *, seed: int) -> Outcome:
    """One trial, from its first block to its verdict."""
    trial = Trial(plan=msgspec.structs.replace(PLAN, seed=seed), began_us=0)
    at_s, live = 0.0, []
    while True:
        index = len(trial.units)
        plan = plan_in_force(trial, index)
        order = arms(seed, index)
        found = {}
        for place, arm in enumerate(order):
            found[arm] = path.block(at_s, plan, arm, 2 * index + place)
            at_s += plan.block_s
            live.append(found[arm].values[f"attainment:{LIVE}"])
        trial = msgspec.structs.replace(trial, units=(*trial.units, _unit(index, order, found)))
        if carry_over(trial):
            trial = msgspec.structs.replace(trial, doubled_from=len(trial.units))
        ruling = rule_on(trial)
        if ruling.verdict is not None:
            return Outcome(
                verdict=ruling.verdict,
                units=ruling.units,
                minutes=at_s / 60,
                live=float(np.mean(live)),
            )


def _unit(index: int, order: Sequence[Arm], found: dict[Arm, BlockValues]) -> Unit:
    base, candidate = found["baseline"], found["candidate"]
    return Unit(
        index=index,
        blocks=tuple(Block(index=2 * index + n, arm=arm) for n, arm in enumerate(order)),
        d=unit_differences(base.values, candidate.values),
        halves=(
            unit_differences(base.halves[0], candidate.halves[0]),
            unit_differences(base.halves[1], candidate.halves[1]),
        ),
        judged=True,
    )


def lives(world: World, factor: float, seed: int, coins: int) -> list[Outcome]:
    """Every trial of one path of load, each with coins of its own."""
    path = Path(QueueModel(world, seed), factor)
    return [try_out(path, seed=seed * 1000 + n) for n in range(coins)]


def upper(events: int, trials: int) -> float:
    """The upper 95 % bound of a share (Clopper and Pearson's).

    >>> round(upper(0, 1000), 4)
    0.003
    """
    return 1.0 if events == trials else float(betaincinv(events + 1, trials - events, 0.95))


def line(name: str, found: Sequence[Outcome]) -> str:
    """One world's figures."""
    counts, n = Counter(one.verdict for one in found), len(found)
    shares = [f"{counts[verdict] / n:8.2%}" for verdict in VERDICTS]
    decided = [one.minutes for one in found if one.verdict in VERDICTS[:2]]
    times = (
        "       -"
        if not decided
        else f"{np.median(decided):4.0f}/{np.quantile(decided, 0.95):3.0f}"
    )
    live = float(np.mean([one.live for one in found]))
    return f"{name:<40} {n:6} {live:8.1%} {' '.join(shares)} {times}"


def main() -> None:
    """Run all worlds, print a line each, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", type=int, default=40, help="paths of load in each world")
    parser.add_argument("--coins", type=int, default=25, help="redrawn on each without an effect")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    plan = PLAN
    print(
        f"switchback, blocks of {plan.block_s:g} s with {plan.washout_s:g} s washout, "
        f"α {plan.alpha:g}, at most {plan.max_units} units; seed {given.seed}\n\n"
        f"{'world':<40} {'trials':>6} {'live ok':>8} {'IMPROVED':>8} {'HARMED':>8} {'neither':>8}"
        "  min (p50/p95)"
    )
    cells = [(world, 1.0, given.paths, given.coins) for world in NO_EFFECT]
    cells += [(world, factor, given.paths, 1) for world, factor in EFFECTS]
    wrong: dict[str, list[tuple[int, int]]] = {verdict: [] for verdict in VERDICTS[:2]}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for world, factor, paths, coins in cells:
            seeds = range(given.seed * 1000, given.seed * 1000 + paths)
            jobs = [pool.submit(lives, world, factor, seed, coins) for seed in seeds]
            found = [outcome for job in jobs for outcome in job.result()]
            effect = "no effect" if factor == 1.0 else f"steps {factor - 1:+.0%}"
            print(line(f"{world.name}: {effect}", found), flush=True)
            if factor == 1.0:
                for verdict, counted in wrong.items():
                    counted.append((sum(o.verdict == verdict for o in found), len(found)))
    print(json.dumps(summary(wrong)))


def summary(wrong: dict[str, list[tuple[int, int]]]) -> dict[str, float]:
    """The worst world's share of each false verdict, and its upper bound."""
    told: dict[str, float] = {"alpha": ALPHA}
    for verdict, counted in wrong.items():
        key = f"false_{verdict.lower()}"
        told[key] = round(max(events / trials for events, trials in counted), 5)
        told[f"{key}_upper"] = round(max(upper(*each) for each in counted), 5)
    return told


if __name__ == "__main__":
    main()
