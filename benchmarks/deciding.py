"""How long one decision takes, whether it replays, and whether its logs can be relied on.

    make bench-deciding

Three parts. The time of ``choose`` as a caller sees it (features, posterior, draws, propensities,
digest), for menus of 8 and 64 actions and states of about 12 and 32 features, by the wall clock and
by the thread's own: on a busy machine the difference is other people's work. A thousand stored
choices read and drawn again by a fresh process under another hash seed. And a thousand logs of an
adaptive learner, whose off-policy interval for another policy should hold the truth.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

import msgspec
import numpy as np

from benchmarks.coverage import coverage as of_queue
from benchmarks.figures import percentile, say, surroundings
from controller.learner import replay
from controller.learner.credit import Entry, Ledger, within_budget
from controller.learner.eligible import may_learn
from controller.learner.linear_thompson import LinearThompson
from controller.learner.masking import menu_of
from controller.learner.offpolicy import By, Unit, estimate
from controller.learner.port import Action, Arm, Context, Menu
from controller.learner.registry import ALGORITHMS, AnyLearner, loaded, saved
from controller.learner.settings import LearnerSettings
from controller.learner.stability import Load, steady
from policies.limits import MICROS
from policies.settings import Setting
from signals.errors import Rejected

SIZES: Final = ((8, 3), (64, 3), (8, 12), (64, 12))
"""(actions, context features)."""
DECISIONS: Final = 20_000
REPLAYS: Final = 1000
LOGS: Final = 1000
UNITS: Final = 200
WARM: Final = 200
HASH_SEED: Final = "271828"


def menu_of_caps(count: int) -> Menu:
    """Every action allowed, on a ladder of ``count`` values."""
    ladder = tuple(range(1, count + 1))
    actions = tuple(Action.of(Arm.on(ladder, "active_cap", Setting(value=v))) for v in ladder)
    return Menu(actions=actions, mask=(True,) * count, baseline=0, current=0)


def context_of(count: int, rng: np.random.Generator) -> Context:
    """So many exogenous figures."""
    return Context.of({f"arrivals_{at}": float(rng.exponential(10.0)) for at in range(count)})


def taught(learner: AnyLearner, menu: Menu, features: int, *, seed: int) -> AnyLearner:
    """After 500 outcomes."""
    rng = np.random.default_rng(seed)
    for index in range(500):
        action = menu.actions[int(rng.integers(len(menu.actions)))]
        learner = learner.learn_one(
            context_of(features, rng),
            action,
            float(rng.random()),
            at_us=index * MICROS,
            decided_us=index * MICROS,
        )
    return learner


def timed(name: str, actions: int, features: int, decisions: int) -> dict[str, float]:
    """Percentiles of a choice, in µs."""
    menu = menu_of_caps(actions)
    learner = taught(ALGORITHMS[name], menu, features, seed=1)
    contexts = [context_of(features, np.random.default_rng(at)) for at in range(64)]
    wall_us, own_us = [], []
    gc.collect()
    for index in range(WARM + decisions):
        context = contexts[index % len(contexts)]
        own_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
        learner.choose(context, menu, seed=index, at_us=600 * MICROS)
        wall_us.append((time.perf_counter_ns() - wall_ns) / 1000)
        own_us.append((time.thread_time_ns() - own_ns) / 1000)
    wall_us, own_us = wall_us[WARM:], own_us[WARM:]
    found = {
        "p50_us": percentile(wall_us, 50),
        "p99_us": percentile(wall_us, 99),
        "own_p50_us": percentile(own_us, 50),
        "own_p99_us": percentile(own_us, 99),
    }
    shown = ", ".join(f"{key} {value:.0f}" for key, value in found.items())
    say(f"{name:<16} {actions:3d} actions, {features:2d} of context: {shown}")
    return {key: round(value, 1) for key, value in found.items()}


def whole_us(decisions: int) -> dict[str, float]:
    """Percentiles of all that surrounds a choice of 8 caps: masking, stability, budget; learning.

    The ledger has a day of half-minute units; the guardrails' answers are given.
    """
    actions = menu_of_caps(8).actions
    learner: AnyLearner = LinearThompson()
    ledger = Ledger()
    for unit in range(2880):
        ledger = msgspec.structs.replace(
            ledger, entries=(*ledger.entries, Entry(end_us=unit * 30 * MICROS, surplus=0.5))
        )
    load, context = Load(binding={"active_cap": 0.9}), Context.of({"arrivals_per_s": 3.0})
    narrowing, learning = [], []
    for index in range(WARM + decisions):
        now_us = (2880 + index) * 30 * MICROS
        began_ns = time.thread_time_ns()
        menu = menu_of(
            actions,
            baseline=actions[3].id,
            current=actions[4].id,
            tried={"active_cap": {2, 7}},
        )
        menu = steady(menu, load, {}, now_us=now_us)
        menu = within_budget(
            menu,
            ledger,
            at_us=now_us,
            span_s=30.0,
            baseline=0.8,
            floor=0.5,
            current_is_kept=False,
        )
        narrowing.append((time.thread_time_ns() - began_ns) / 1000)
        choice = learner.choose(context, menu, seed=index, at_us=now_us)
        began_ns = time.thread_time_ns()
        if not may_learn(origin="learner", decided_by="loop", emergency=False, overridden=False):
            learner = learner.learn_one(
                context, choice.action, 0.7, at_us=now_us, decided_us=now_us
            )
        learning.append((time.thread_time_ns() - began_ns) / 1000)
    found = {
        "narrow_own_p99_us": round(percentile(narrowing[WARM:], 99), 1),
        "learn_own_p99_us": round(percentile(learning[WARM:], 99), 1),
    }
    say(f"around a choice: {found}")
    return found


def replayed(count: int) -> tuple[int, int]:
    """(identical, replayed): choices of every algorithm, drawn again in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, learner) in enumerate(ALGORITHMS.items()):
            menu = menu_of_caps(8)
            known = taught(learner, menu, 3, seed=number)
            (Path(folder) / f"{name}.state").write_bytes(saved(known))
            share = count // len(ALGORITHMS)
            stored = [
                replay.written(
                    known.choose(
                        context_of(3, np.random.default_rng(seed)),
                        menu,
                        seed=seed,
                        at_us=600 * MICROS,
                    )
                )
                for seed in range(share)
            ]
            (Path(folder) / f"{name}.choices").write_bytes(b"\n".join(stored))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.deciding", "--again", folder],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        )
    identical, total = json.loads(done.stdout.splitlines()[-1])
    return identical, total


def again(folder: Path) -> tuple[int, int]:
    """What the fresh process does: read states and choices, nothing else, and draw again."""
    differences: list[str] = []
    for path in sorted(folder.glob("*.state")):
        learner = loaded(path.read_bytes())
        lines = path.with_suffix(".choices").read_bytes().split(b"\n")
        differences += [replay.difference(replay.read(line), learner) for line in lines]
    return differences.count(""), len(differences)


class World(msgspec.Struct, frozen=True):
    """Eight caps whose utility has a top in the middle, with noise that remembers."""

    means: tuple[float, ...] = (0.42, 0.5, 0.57, 0.63, 0.66, 0.64, 0.55, 0.4)
    noise: float = 0.1
    memory: float = 0.5

    def noises(self, count: int, rng: np.random.Generator) -> Sequence[float]:
        """Autocorrelated noise of a log, sd ``noise``."""
        fresh = rng.normal(0, self.noise * (1 - self.memory**2) ** 0.5, size=count)
        found, last = [], float(rng.normal(0, self.noise))
        for step in fresh:
            last = self.memory * last + float(step)
            found.append(last)
        return found


def coverage(logs: int) -> dict[str, dict[str, float]]:
    """By estimator: share of intervals that hold the truth, and share refused, of adaptive logs.

    The target policy is even over three caps in the middle; the logging one learns as it goes.
    """
    world, menu = World(), menu_of_caps(8)
    target = tuple(1 / 3 if 3 <= at <= 5 else 0.0 for at in range(8))
    truth = sum(t * m for t, m in zip(target, world.means, strict=True))
    held, refused = dict.fromkeys(get_args(By), 0), dict.fromkeys(get_args(By), 0)
    for seed in range(logs):
        units = log_of(world, menu, target, seed)
        for by in get_args(By):
            try:
                found = estimate(units, washout_s=10, by=by)
            except Rejected:
                refused[by] += 1
                continue
            held[by] += found.low <= truth <= found.high
    return {
        by: {
            "covered": round(held[by] / max(1, logs - refused[by]), 4),
            "refused": round(refused[by] / logs, 4),
        }
        for by in get_args(By)
    }


def log_of(world: World, menu: Menu, target: tuple[float, ...], seed: int) -> list[Unit]:
    """One log of a Thompson learner that starts from nothing and learns from each unit."""
    rng = np.random.default_rng(seed)
    learner = LinearThompson.of(LearnerSettings(draws=32))
    units: list[Unit] = []
    for at, noise in enumerate(world.noises(UNITS, rng)):
        now_us = at * 60 * MICROS
        choice = learner.choose(Context(), menu, seed=seed * UNITS + at, at_us=now_us)
        reward = world.means[choice.index] + noise
        known = [action_mean(units, index) for index in range(len(menu.actions))]
        units.append(
            Unit(
                chosen=choice.index,
                propensities=choice.propensities,
                target=target,
                reward=reward,
                span_s=60.0,
                since_change_s=60.0,
                predictions=tuple(known),
            )
        )
        learner = learner.learn_one(
            Context(), choice.action, reward, at_us=now_us, decided_us=now_us
        )
    return units


def action_mean(units: Sequence[Unit], index: int) -> float:
    """The mean reward of an action in the units before, 0.5 where there is none."""
    found = [unit.reward for unit in units if unit.chosen == index]
    return float(np.mean(found)) if found else 0.5


def main() -> int:
    """0 when every choice came out again."""
    parser = argparse.ArgumentParser(prog="deciding", description=__doc__.partition("\n")[0])
    parser.add_argument("--decisions", type=int, default=DECISIONS, help="timed, of each size")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="choices drawn again")
    parser.add_argument("--logs", type=int, default=LOGS, help="adaptive logs")
    parser.add_argument("--queue-logs", type=int, default=LOGS, help="logs of the queue")
    parser.add_argument("--progress", type=Path, help="keep the queue's logs there; go on there")
    parser.add_argument("--again", type=Path, help="draw the choices of a folder again")
    given = parser.parse_args()
    if given.again is not None:
        say(json.dumps(again(given.again)))
        return 0
    choices = {
        f"{name}_{actions}_{features}": timed(name, actions, features, given.decisions)
        for name in ("linear_thompson", "linucb")
        for actions, features in SIZES
    }
    around = whole_us(given.decisions)
    identical, total = replayed(given.replays)
    say(f"replayed in a fresh process: {identical} of {total} identical")
    found = coverage(given.logs)
    say(f"intervals of {given.logs} adaptive logs: {found}")
    queue = of_queue(given.queue_logs, path=given.progress) if given.queue_logs else {}
    say(f"intervals of {given.queue_logs} logs of the simulated queue: {queue}")
    first = choices["linear_thompson_8_3"]
    document = {
        "decide_p99_us": first["p99_us"],
        "decide_own_p99_us": first["own_p99_us"],
        "decide_64_own_p99_us": choices["linear_thompson_64_3"]["own_p99_us"],
        "replays": total,
        "replays_identical": identical,
        "covered": found,
        "covered_queue": queue,
        "choices": choices,
        **around,
        "context": surroundings(0, given.decisions < DECISIONS, ["numpy", "scipy", "msgspec"]),
    }
    say(json.dumps(document))
    return 0 if identical == total else 1


if __name__ == "__main__":
    raise SystemExit(main())
