"""Step times by what they are for: the latencies of the run that is calibrated on.

Least squares on the log's intervals come near, but they match seconds, not quantiles. From there, a
simplex search (Nelder and Mead) over the logarithms of the four costs and of the time that passes
outside the engine lowers the mean squared log ratio of predicted to measured quantiles, of TTFT and
TPOT alike. It sees the calibrated requests only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from scipy.optimize import minimize

from benchmarks.simulator_truth.measured import Request
from benchmarks.simulator_truth.scoring import tpots_s, ttfts_s
from engine.simulated.step_times import StepTimes

SHARES = [*range(5, 100, 5), 99]
FIRST_STEP = 0.3
"""Of the search, in logarithms."""
LEAST_US = np.array([100.0, 5.0, 5.0, 0.01, 5_000.0])
"""Where the search begins at least: a logarithm cannot leave zero."""


class Calibration(Struct, frozen=True, kw_only=True):
    """What is fitted. ``front_s`` passes before a request is with the engine and counts in TTFT."""

    step_times: StepTimes
    front_s: float = 0.0

    def seen_by_clients(self, predicted: Sequence[Request]) -> list[Request]:
        """The engine's times as a client has them."""
        return [
            replace(r, first_s=r.first_s + self.front_s, last_s=r.last_s + self.front_s)
            for r in predicted
        ]


Predict = Callable[[Calibration], Sequence[Request]]


def refined(
    start: StepTimes, measured: Sequence[Request], predict: Predict, *, tries: int
) -> Calibration:
    """The calibration with the least distance found in ``tries`` predictions."""

    def distance(x: np.ndarray) -> float:
        guess = predict(_calibration(x))
        return _apart(ttfts_s(measured), ttfts_s(guess)) + _apart(tpots_s(measured), tpots_s(guess))

    known_us = [
        start.base_us,
        start.per_decode_us,
        start.per_prefill_us,
        start.per_context_us,
        0.0,
    ]
    x = np.log(np.maximum(known_us, LEAST_US))
    simplex = np.vstack([x, x + FIRST_STEP * np.eye(len(x))])
    found = minimize(
        distance, x, method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": simplex}
    )
    return _calibration(found.x)


def _calibration(x: np.ndarray) -> Calibration:
    base, decode, prefill, context, front_us = np.exp(x).tolist()
    return Calibration(
        step_times=StepTimes(
            base_us=base, per_decode_us=decode, per_prefill_us=prefill, per_context_us=context
        ),
        front_s=front_us / 1e6,
    )


def _apart(measured: Sequence[float], predicted: Sequence[float]) -> float:
    ratios = np.log(np.percentile(predicted, SHARES)) - np.log(np.percentile(measured, SHARES))
    return float(np.mean(ratios**2))
