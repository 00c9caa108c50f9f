"""Predicted against measured TTFT and TPOT on real vLLM runs, and how fast the prediction is.

::

    own       the embedded engine, recorded now at three loads: fitted on the middle one
    engines   two engines' public logs: fitted on one part, predicted on the other
    speed     simulated seconds in a real one, on every trace and process

``r``: how far sequences and their context rise together in the run that is fitted on; near 1 it
cannot tell what each costs. Runs are never scored on what they were fitted on. The keys are the
worst over the predicted runs; every run's own errors are in ``context``; those of the embedded
engine have keys of their own.
TRIMTAB_DATA names the folder with the public data, which only ``own`` does without.
The last line is one JSON object: the keys (null: not run) and their context.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec
from msgspec import to_builtins

from benchmarks import traces
from benchmarks.figures import Figures, say, surroundings
from benchmarks.simulator_truth import edge, speed
from benchmarks.simulator_truth.engines import Judged, burstgpt_vllm, rtx_4090
from benchmarks.simulator_truth.own_engine import embedded
from benchmarks.simulator_truth.recording import read, record
from benchmarks.simulator_truth.scoring import SHARES, Score, table, worst
from engine.simulated.step_times import StepTimes
from signals.errors import Unavailable

PACKAGES = ("numpy", "scipy")
QUICK_S = 30.0
AIMS = {
    "ttft_median_error": "≤ 0.15",
    "ttft_p90_error": "-",
    "ttft_p99_error": "≤ 0.30",
    "tpot_median_error": "≤ 0.15",
    "tpot_p90_error": "-",
    "tpot_p99_error": "≤ 0.30",
    "own_ttft_median_error": "≤ 0.15",
    "own_ttft_p90_error": "-",
    "own_ttft_p99_error": "≤ 0.30",
    "own_tpot_median_error": "≤ 0.15",
    "own_tpot_p90_error": "-",
    "own_tpot_p99_error": "≤ 0.30",
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


def own(given: argparse.Namespace, told: Figures) -> None:
    """The engine of this product, on this machine."""
    if given.own_log is not None and given.own_log.exists():
        recording = read(given.own_log)
        say(f"\nread {given.own_log}: {recording.hardware}, load {recording.load_average}")
    else:
        length_s = QUICK_S if given.quick else given.own_s
        about = [str(told.more[name]) for name in ("processor", "cores")]
        recording = record(given.seed, length_s, ", ".join(about), told.more["load_average"])
        if given.own_log is not None:
            given.own_log.write_bytes(msgspec.json.encode(recording))
    judged = embedded(recording, tries=60 if given.quick else 300, seed=given.seed)
    show(judged, told)
    told.more["recording"] = {
        "hardware": recording.hardware,
        "load_average": recording.load_average,
        "active_cap": recording.active_cap,
        "step_token_budget": recording.step_token_budget,
        "requests": {f"{run.per_s:g} a second": len(run.requests) for run in recording.runs},
    }
    for latency in ("ttft", "tpot"):
        for quantile in SHARES:
            error = worst(judged.predicted, latency, quantile)
            told.key(f"own_{latency}_{quantile}_error", error)


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
    if judged.bands:
        say(edge.told(judged.bands))
    told.more[judged.fitted_on] = {
        "calibration": to_builtins(judged.calibration),
        "errors": {
            f"{s.run}: {s.latency} {s.quantile}": round(s.error, 3) for s in judged.predicted
        },
        "ttft_median_amplified": {b.run: round(b.amplification, 2) for b in judged.bands},
    }


def fast(given: argparse.Namespace, told: Figures) -> None:
    """How much faster than real time."""
    say("\n── speed, one engine")
    least, every = speed.measure(TYPICAL, simulated_s=600 if given.quick else 3600, seed=given.seed)
    told.key("times_real_time", least)
    told.more["speed"] = every


PARTS = {"own": own, "engines": engines, "speed": fast}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.simulator_truth", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeatable")
    parser.add_argument("--quick", action="store_true", help="fewer tries; rougher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--own-s", type=float, default=120.0, help="of each of three loads on the embedded engine"
    )
    parser.add_argument(
        "--own-log", type=Path, help="what was recorded there: read if it exists, else written"
    )
    parser.add_argument("--json", type=Path, help="write the last line there too")
    return parser.parse_args()


def main() -> int:
    """0 when it was measured, 1 without the data; figures decide nothing."""
    given = options()
    figures, began_s = Figures(AIMS), time.monotonic()
    figures.more.update(surroundings(given.seed, given.quick, PACKAGES))
    say(", ".join(f"{name} {value}" for name, value in figures.more.items()))
    try:
        if set(given.only or PARTS) != {"own"}:
            traces.folder()
        for name in given.only or PARTS:
            PARTS[name](given, figures)
    except Unavailable as error:
        say(f"not measured: {error.detail}")
        return 1
    figures.more["took_s"] = round(time.monotonic() - began_s)
    say(f"\n{figures.table()}\ntook {figures.more['took_s']} s")
    line = json.dumps(figures.document(), ensure_ascii=False)
    if given.json is not None:
        given.json.write_text(line + "\n", encoding="utf-8")
    say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
