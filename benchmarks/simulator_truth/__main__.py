"""Predicted against measured TTFT and TPOT on real vLLM runs, and how fast the prediction is.

::

    engines   two engines' public logs: fitted on one part, predicted on the other
    speed     simulated seconds in a real one, on every trace and process

Runs are never scored on what they were fitted on. The keys are the worst over the predicted runs;
every run's own errors are in ``context``. TRIMTAB_DATA names the folder with the public data.
The last line is one JSON object: the keys (null: not run) and their context.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from msgspec import to_builtins

from benchmarks import traces
from benchmarks.figures import Figures, say, surroundings
from benchmarks.simulator_truth import speed
from benchmarks.simulator_truth.engines import Judged, burstgpt_vllm, rtx_4090
from benchmarks.simulator_truth.scoring import SHARES, Score, table, worst
from engine.simulated.step_times import StepTimes
from signals.errors import Unavailable

PACKAGES = ("numpy", "scipy")
AIMS = {
    "ttft_median_error": "≤ 0.15",
    "ttft_p90_error": "-",
    "ttft_p99_error": "≤ 0.30",
    "tpot_median_error": "≤ 0.15",
    "tpot_p90_error": "-",
    "tpot_p99_error": "≤ 0.30",
    "times_real_time": "≥ 1,000",
}
TYPICAL = StepTimes(
    base_us=4_000, per_decode_us=250, per_prefill_us=35, per_context_us=0.08, noise_sd=0.05
)
"""An engine to measure speed with, near BurstGPT's; its noise is switched on."""


def engines(given: argparse.Namespace, told: Figures) -> None:
    """Every real engine, and the worst error of every quantile."""
    tries = 60 if given.quick else 300
    found: list[Score] = []
    for judge in (rtx_4090, burstgpt_vllm):
        judged = judge(tries=tries, seed=given.seed)
        show(judged, told)
        found += judged.predicted
    for latency in ("ttft", "tpot"):
        for quantile in SHARES:
            told.key(f"{latency}_{quantile}_error", worst(found, latency, quantile))


def show(judged: Judged, told: Figures) -> None:
    """One engine, for people and for the last line."""
    costs = judged.calibration.step_times
    say(f"\n── fitted on {judged.fitted_on}")
    say(
        f"a step: {costs.base_us:,.0f} µs + {costs.per_decode_us:,.1f} a decoding sequence"
        f" + {costs.per_prefill_us:,.1f} a prompt token + {costs.per_context_us:.4f} a token of"
        f" context; outside the engine {1000 * judged.calibration.front_s:.1f} ms"
    )
    say(f"the fit itself (not counted)\n{table(judged.fitted)}")
    say(f"predicted\n{table(judged.predicted)}")
    told.more[judged.fitted_on] = {
        "calibration": to_builtins(judged.calibration),
        "errors": {
            f"{s.run}: {s.latency} {s.quantile}": round(s.error, 3) for s in judged.predicted
        },
    }


def fast(given: argparse.Namespace, told: Figures) -> None:
    """How much faster than real time."""
    say("\n── speed, one engine")
    least, every = speed.measure(TYPICAL, simulated_s=600 if given.quick else 3600, seed=given.seed)
    told.key("times_real_time", least)
    told.more["speed"] = every


PARTS = {"engines": engines, "speed": fast}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.simulator_truth", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="fewer tries; rougher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the last line there too")
    return parser.parse_args()


def main() -> int:
    """0 when it was measured, 1 without the data; figures decide nothing."""
    given = options()
    figures, began_s = Figures(AIMS), time.monotonic()
    figures.more.update(surroundings(given.seed, given.quick, PACKAGES))
    say(", ".join(f"{name} {value}" for name, value in figures.more.items()))
    try:
        traces.folder()
        for name in given.only or PARTS:
            PARTS[name](given, figures)
    except Unavailable as error:
        say(f"not measured: {error.detail}")
        return 1
    figures.more["missing"] = "the embedded engine: only public logs of vLLM are predicted here"
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(f"\n{figures.table()}\ntook {figures.more['took_s']} s")
    line = json.dumps(figures.document(), ensure_ascii=False)
    if given.json is not None:
        given.json.write_text(line + "\n", encoding="utf-8")
    say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
