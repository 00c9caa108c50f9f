"""Tuning regret on measured engines: the learner against random search at equal budgets.

    make bench-tuning ARGS="--file PATH"        or TRIMTAB_DATA=FOLDER

The file is ``aiconfigurator/silicon_sample.csv`` of the public data: TTFT and TPOT of serving
engines, measured. A *problem* is a model on a system at one input and output length, with at least
20 different configurations; its knobs are the columns of ``KNOBS``, its actions exactly the
configurations that were measured. A tuner names one, is told its score, and may name each once.

The score, fixed before anything was run: output tokens per second and GPU,

    concurrency·osl / (ttft + tpot·(osl − 1)) / GPUs,  times (limit/tpot)² beyond the limit,

with the problem's median TPOT as the limit. ``--score throughput`` drops the limit. A worker has
``pp·max(tp, moe_tp·moe_ep)`` GPUs; a disaggregated engine has its prefill and decode workers, one
of each where the file gives no number. Tuners see the score's logarithm, less that of the first
they tried; regret is 1 − score of the best named so far ÷ best there is.

The first ``--initial`` configurations (4) are drawn by one coin for all tuners, so up to there
regret is equal by construction. With ``--initial 1`` both bandits are worse than random at 2 and 3
on this score: with one figure known, what might be best is what is least like it, and such
configurations are often useless ones.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.figures import say, surroundings
from controller.learner.linear_thompson import LinearThompson
from controller.learner.linucb import LinUcb
from controller.learner.port import Action, Arm, Context, Menu
from controller.learner.random_search import RandomSearch
from controller.learner.ridge import Ridge
from controller.learner.settings import LearnerSettings
from policies.settings import Setting

FILE: Final = Path("aiconfigurator") / "silicon_sample.csv"
SEEDS: Final = 20
BUDGET: Final = 50
EARLY: Final = 10
LEAST_SIZE: Final = 20
INITIAL: Final = 4
SHOWN: Final = (1, 2, 3, 5, 8, 10, 15, 20, 30, 50)
NUMBERS: Final = (
    "tp_size pp_size attention_dp_size moe_tp_size moe_ep_size prefill_num_workers"
    " prefill_tp_size prefill_attention_dp_size prefill_moe_ep_size decode_num_workers"
    " decode_tp_size decode_attention_dp_size decode_moe_ep_size"
).split()
NAMES: Final = "backend backend_version precision mode moe_quant_mode".split()
SETTINGS: Final = LearnerSettings(noise_sd=0.2, prior_sd=0.5, max_features=96)
"""In logarithms of the score; as first written down, not searched for."""
Array = NDArray[np.float64]
Score = Literal["goodput", "throughput"]
Tuner = LinearThompson | LinUcb | RandomSearch
Row = Mapping[str, str]


class Problem(Struct, frozen=True):
    """One engine to tune: what was measured, and the score of each."""

    name: str
    actions: tuple[Action, ...]
    scores: tuple[float, ...]


def problems(rows: Sequence[Row], kind: Score) -> list[Problem]:
    """Every problem of the file, in name order; rows that name no concurrency are left out."""
    found = defaultdict(list)
    for row in rows:
        if concurrency(row):
            key = " ".join(row[name] for name in ("model_path", "system", "isl", "osl"))
            found[key].append(row)
    large = [name for name in sorted(found) if len(found[name]) >= LEAST_SIZE]
    built = [_problem(name, found[name], kind) for name in large]
    return [problem for problem in built if len(problem.scores) >= LEAST_SIZE]


def concurrency(row: Row) -> int:
    """Requests in flight while it was measured; 0 where the file does not say."""
    found = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    return int(found[1]) if found else 0


def _problem(name: str, rows: Sequence[Row], kind: Score) -> Problem:
    """Configurations that were measured more than once count with their mean score."""
    limit_ms = float(np.median([float(row["silicon_tpot_ms"]) for row in rows]))
    knobs = _knobs(rows)
    ladders = {knob: sorted(set(values)) for knob, values in knobs.items()}
    moved = [knob for knob, ladder in ladders.items() if len(ladder) > 1]
    scores: dict[Action, list[float]] = defaultdict(list)
    for at, row in enumerate(rows):
        arms = [Arm.on(ladders[k], k, Setting(value=knobs[k][at])) for k in moved]
        scores[Action.of(*arms)].append(score(row, limit_ms, kind))
    means = tuple(float(np.mean(found)) for found in scores.values())
    return Problem(name, tuple(scores), means)


def _knobs(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Knob -> its value in each row; a name is a knob of 0 and 1 for each value but the first."""
    found = {name: [int(row[name] or 0) for row in rows] for name in NUMBERS}
    found["concurrency"] = [concurrency(row) for row in rows]
    for name in NAMES:
        for value in sorted({row[name] for row in rows})[1:]:
            found[f"{name}={value}"] = [int(row[name] == value) for row in rows]
    return found


def score(row: Row, limit_ms: float, kind: Score) -> float:
    """What a tuner maximises, see above."""
    ttft_ms, tpot_ms = float(row["silicon_ttft_ms"]), float(row["silicon_tpot_ms"])
    osl = int(row["osl"])
    request_s = (ttft_ms + tpot_ms * (osl - 1)) / 1000
    rate = concurrency(row) * osl / request_s / gpus(row)
    return rate * min(1.0, (limit_ms / tpot_ms) ** 2) if kind == "goodput" else rate


def gpus(row: Row) -> int:
    """How many GPUs the configuration holds."""
    if row["mode"] != "disagg":
        return _worker(row, "")
    return sum(
        int(row[f"{part}_num_workers"] or 1) * _worker(row, f"{part}_")
        for part in ("prefill", "decode")
    )


def _worker(row: Row, part: str) -> int:
    tp, pp, moe_tp, moe_ep = (
        int(row[f"{part}{name}_size"] or 1) for name in ("tp", "pp", "moe_tp", "moe_ep")
    )
    return pp * max(tp, moe_tp * moe_ep)


def tuners() -> dict[str, Tuner]:
    """Who tunes."""
    return {
        "linear_thompson": LinearThompson.of(SETTINGS),
        "linucb": LinUcb(sums=Ridge.of(SETTINGS)),
        "random_search": RandomSearch(budget=BUDGET + 1),
    }


def regrets(problem: Problem, tuner: Tuner, *, seed: int, budget: int, initial: int) -> list[float]:
    """Simple regret after each of ``budget`` evaluations."""
    best, found = max(problem.scores), 0.0
    left = [True] * len(problem.actions)
    drawn = [int(at) for at in np.random.default_rng(seed).permutation(len(left))[:initial]]
    curve = []
    for step in range(budget):
        if any(left):
            early = step < len(drawn)
            index = drawn[step] if early else _named(problem, tuner, left, seed * 1000 + step)
            left[index] = False
            found = max(found, problem.scores[index])
            reward = math.log(problem.scores[index] / problem.scores[drawn[0]])
            tuner = tuner.learn_one(
                Context(), problem.actions[index], reward, at_us=0, decided_us=0
            )
        curve.append(1.0 - found / best)
    return curve


def _named(problem: Problem, tuner: Tuner, left: Sequence[bool], seed: int) -> int:
    """Which of the configurations that are left a tuner names next."""
    some = left.index(True)
    menu = Menu(actions=problem.actions, mask=tuple(left), baseline=some, current=some)
    return tuner.choose(Context(), menu, seed=seed, at_us=0).index


def run(found: Sequence[Problem], *, seeds: int, budget: int, initial: int) -> dict[str, Array]:
    """Regret by tuner: problems × seeds × budgets."""
    curves = {}
    for name, tuner in tuners().items():
        curves[name] = np.array(
            [
                [
                    regrets(problem, tuner, seed=seed, budget=budget, initial=initial)
                    for seed in range(seeds)
                ]
                for problem in found
            ]
        )
        say(f"{name:<16}" + _line(curves[name].mean(axis=(0, 1))))
    return curves


def _line(means: Array) -> str:
    return "".join(f"{means[at - 1]:8.4f}" for at in SHOWN if at <= len(means))


def compared(curves: Mapping[str, Array], name: str, initial: int) -> dict[str, object]:
    """A tuner beside random search: means over problems and seeds, with the problems' own spread.

    ``lower_to_10``: at each budget from the first of its own choice to 10. ``worst_z``: the largest
    mean difference (positive: worse) in its standard errors over problems.
    """
    mine, yours = curves[name].mean(axis=1), curves["random_search"].mean(axis=1)
    gap = (mine - yours).mean(axis=0)
    error = (mine - yours).std(axis=0, ddof=1) / math.sqrt(len(mine)) if len(mine) > 1 else gap
    early = slice(initial, EARLY)
    return {
        "budgets_worse": [at + 1 for at, value in enumerate(gap) if value > 0],
        "lower_to_10": bool((gap[early] < 0).all()),
        "worst_z": round(float(np.max(gap / np.maximum(error, 1e-12))), 2),
        "regret_5": round(float(mine[:, 4].mean()), 4),
        "regret_10": round(float(mine[:, 9].mean()), 4),
        "regret_10_high": round(float((gap + 1.96 * error)[9] + yours[:, 9].mean()), 4),
    }


def main() -> int:
    """0 when the learner's mean regret is worse at no budget, and lower up to 10."""
    parser = argparse.ArgumentParser(prog="tuning", description=__doc__.partition("\n")[0])
    where = Path(os.environ.get("TRIMTAB_DATA", ".")) / FILE
    parser.add_argument("--file", type=Path, default=where, help="the measured configurations")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="coin sequences a problem")
    parser.add_argument("--budget", type=int, default=BUDGET, help="evaluations")
    parser.add_argument("--initial", type=int, default=INITIAL, help="drawn alike for all")
    parser.add_argument("--problems", type=int, default=1000, help="only the first so many")
    parser.add_argument("--score", choices=("goodput", "throughput"), default="goodput")
    given = parser.parse_args()
    if not given.file.is_file():
        parser.error(f"{given.file} is not there: name it with --file, or set TRIMTAB_DATA")
    with given.file.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = problems(rows, given.score)[: given.problems]
    sizes = [len(problem.scores) for problem in found]
    say(f"{len(rows)} rows, {len(found)} problems of {min(sizes)} to {max(sizes)} configurations")
    say(f"{'mean regret at':<16}" + "".join(f"{at:8d}" for at in SHOWN if at <= given.budget))
    curves = run(found, seeds=given.seeds, budget=given.budget, initial=given.initial)
    mine = compared(curves, "linear_thompson", given.initial)
    document = {
        "thompson": mine,
        "linucb": compared(curves, "linucb", given.initial),
        "random_regret_5": round(float(curves["random_search"][:, :, 4].mean()), 4),
        "random_regret_10": round(float(curves["random_search"][:, :, 9].mean()), 4),
        "score": given.score,
        "problems": len(found),
        "configurations": sum(sizes),
        "seeds": given.seeds,
        "budget": given.budget,
        "initial": given.initial,
        "context": surroundings(0, given.problems < len(found), ["numpy", "scipy"]),
    }
    say(json.dumps(document))
    return 0 if not mine["budgets_worse"] and mine["lower_to_10"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
