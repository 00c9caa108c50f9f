"""Whether off-policy intervals hold the truth, on logs of a learner that steers a simulated queue.

A log is 200 units of half a minute. In each the learner draws one of eight caps with propensities
that it knows exactly, the queue (``queue_model``: chats before batch jobs, under a load that
wanders) runs with it, and the utility after a washout is the unit's reward, from which the learner
learns. So propensities change as it learns, rewards of neighbouring units are alike (the load has
lulls and bursts that last for minutes), and what one cap left waiting the next has to work off.

The target policy draws evenly from three large caps. Its true value is the mean over independent
runs of the same queue under that policy, as long as a log. A figure is the share of logs whose 95 %
interval holds it. Each log depends on its seed alone; ``Progress`` keeps those that are done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, get_args

import msgspec
import numpy as np

from benchmarks.queue_model import BATCH, LIVE, CapLaw, QueueModel, World
from controller.learner.linear_thompson import LinearThompson
from controller.learner.offpolicy import By, Unit, estimate
from controller.learner.port import Action, Arm, Context, Menu
from controller.learner.settings import LearnerSettings
from policies.limits import MICROS
from policies.settings import Setting
from signals.errors import Rejected

CAPS: Final = (8, 12, 16, 18, 20, 22, 24, 28)
TARGET: Final = (0.0, 0.0, 0.0, 0.0, 1 / 3, 1 / 3, 1 / 3, 0.0)
LOAD: Final = World(name="wandering", chats_per_s=6.0, load_sd=0.5)
UNITS: Final = 200
SPAN_S: Final = 30
WASHOUT_S: Final = 10
DEADLINE_S: Final = 3
"""Chats of the last seconds of a unit are not counted: nobody knows yet whether they end well."""
FULL_TOKENS_S: Final = 400.0
WANTED: Final = 0.97
"""Attainment above which more earns nothing."""
RUNS: Final = 60
"""Independent runs that the true value is the mean of."""
DRAWS: Final = 32


class Held(msgspec.Struct, frozen=True):
    """One log: by estimator its interval, None where it was refused."""

    seed: int
    intervals: dict[str, tuple[float, float] | None]


class Progress:
    """What is done already, as lines of a file; a new one is in memory only without a path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines = path.read_text("utf-8").splitlines() if path and path.exists() else []

    def values(self) -> dict[int, float]:
        """Mean utilities of the target's own runs."""
        return {seed: value for kind, seed, value in map(json.loads, self._lines) if kind == "run"}

    def logs(self) -> dict[int, Held]:
        """Logs, by seed."""
        kept = [found for kind, _, found in map(json.loads, self._lines) if kind == "log"]
        return {log.seed: log for log in (msgspec.convert(found, Held) for found in kept)}

    def keep(self, kind: str, seed: int, found: object) -> None:
        """One more."""
        line = json.dumps([kind, seed, msgspec.to_builtins(found)])
        self._lines.append(line)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def coverage(logs: int, runs: int = RUNS, path: Path | None = None) -> dict[str, dict[str, float]]:
    """By estimator: share of intervals that hold the truth, and share refused; and the truth."""
    progress = Progress(path)
    for seed in _missing(runs, progress.values()):
        progress.keep("run", seed, own_value(seed))
    for seed in _missing(logs, progress.logs()):
        progress.keep("log", seed, held(seed))
    values = np.array([progress.values()[seed] for seed in range(runs)])
    done = [progress.logs()[seed] for seed in range(logs)]
    truth, error = float(values.mean()), float(values.std(ddof=1) / math.sqrt(runs))
    told = {by: _share([log.intervals[by] for log in done], truth) for by in get_args(By)}
    return {**told, "truth": {"value": round(truth, 4), "standard_error": round(error, 4)}}


def held(seed: int) -> Held:
    """The intervals of one log."""
    units, intervals = log_of(seed), dict[str, tuple[float, float] | None]()
    for by in get_args(By):
        try:
            found = estimate(units, washout_s=WASHOUT_S, by=by)
        except Rejected:
            intervals[by] = None
            continue
        intervals[by] = (found.low, found.high)
    return Held(seed, intervals)


def log_of(seed: int) -> list[Unit]:
    """What a Thompson learner did that knew nothing, and learned from each unit."""
    menu = _menu()
    learner = LinearThompson.of(LearnerSettings(draws=DRAWS))
    queue, units = QueueModel(LOAD, seed=seed), list[Unit]()
    sums, counts = np.zeros(len(CAPS)), np.zeros(len(CAPS))
    for at in range(UNITS):
        now_us = at * SPAN_S * MICROS
        choice = learner.choose(Context(), menu, seed=seed * UNITS + at, at_us=now_us)
        so_far = sums.sum() / max(1.0, counts.sum())
        known = np.where(counts > 0, sums / np.maximum(counts, 1), so_far)
        reward = lived(queue, at, CAPS[choice.index])
        units.append(
            Unit(
                chosen=choice.index,
                propensities=choice.propensities,
                target=TARGET,
                reward=reward,
                span_s=SPAN_S,
                since_change_s=SPAN_S,
                predictions=tuple(known.tolist()),
            )
        )
        sums[choice.index] += reward
        counts[choice.index] += 1
        end_us = now_us + SPAN_S * MICROS
        learner = learner.learn_one(
            Context(), choice.action, reward, at_us=end_us, decided_us=now_us
        )
    return units


def own_value(seed: int) -> float:
    """The mean utility of one run under the target policy itself, under a load of its own."""
    rng = np.random.default_rng([seed, 1])
    queue = QueueModel(LOAD, seed=10**6 + seed)
    caps = rng.choice(CAPS, size=UNITS, p=TARGET).tolist()
    return float(np.mean([lived(queue, at, cap) for at, cap in enumerate(caps)]))


def lived(queue: QueueModel, unit: int, cap: int) -> float:
    """Let one unit pass under a cap: its utility after the washout."""
    began_us, end_us = unit * SPAN_S * MICROS, (unit + 1) * SPAN_S * MICROS
    queue.run(end_us, law=CapLaw(idle=cap, busy=cap))
    from_us = began_us + WASHOUT_S * MICROS
    seconds = queue.between(from_us, end_us)
    rate = sum(second.output_tokens[BATCH] for second in seconds) / (SPAN_S - WASHOUT_S)
    chats = [
        chat for chat in queue.arrived(from_us, end_us - DEADLINE_S * MICROS) if chat.intent == LIVE
    ]
    attained = sum(bool(chat.good) for chat in chats) / len(chats) if chats else 1.0
    return 0.5 * min(1.0, rate / FULL_TOKENS_S) + 0.5 * min(1.0, attained / WANTED)


def _menu() -> Menu:
    actions = tuple(Action.of(Arm.on(CAPS, "active_cap", Setting(value=cap))) for cap in CAPS)
    return Menu(actions=actions, mask=(True,) * len(CAPS), baseline=0, current=0)


def _missing(count: int, done: Iterable[int]) -> Iterator[int]:
    return iter(sorted(set(range(count)) - set(done)))


def _share(intervals: list[tuple[float, float] | None], truth: float) -> dict[str, float]:
    told = [interval for interval in intervals if interval is not None]
    held = sum(low <= truth <= high for low, high in told)
    widths = [high - low for low, high in told]
    return {
        "covered": round(held / max(1, len(told)), 4),
        "refused": round(1 - len(told) / max(1, len(intervals)), 4),
        "width_median": round(float(np.median(widths)), 4) if widths else 0.0,
    }
