"""Predicted against measured: the quantiles of two samples, and their relative distance.

Quantiles of the whole are compared, not requests one by one: what decides reads quantiles, and two
runs of one real engine do not agree on single requests either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from benchmarks.simulator_truth.measured import Request

SHARES = {"median": 50.0, "p90": 90.0, "p99": 99.0}
LEAST_TOKENS = 16
"""Requests with fewer output tokens have no time between tokens worth comparing."""


class Score(Struct, frozen=True, kw_only=True):
    """One quantile of one latency of one run, in milliseconds."""

    run: str
    latency: str
    quantile: str
    measured_ms: float
    predicted_ms: float

    @property
    def error(self) -> float:
        """|predicted / measured − 1|."""
        return abs(self.predicted_ms / self.measured_ms - 1)


def scores(run: str, measured: Sequence[Request], predicted: Sequence[Request]) -> list[Score]:
    """Every quantile of TTFT and TPOT."""
    sides = {"ttft": (ttfts_s, measured, predicted), "tpot": (tpots_s, measured, predicted)}
    return [
        Score(
            run=run,
            latency=latency,
            quantile=quantile,
            measured_ms=1000 * float(np.percentile(of(truth), share)),
            predicted_ms=1000 * float(np.percentile(of(guess), share)),
        )
        for latency, (of, truth, guess) in sides.items()
        for quantile, share in SHARES.items()
    ]


def ttfts_s(requests: Sequence[Request]) -> list[float]:
    """Every request's time to its first token."""
    return [request.ttft_s for request in requests]


def tpots_s(requests: Sequence[Request]) -> list[float]:
    """The time between tokens of every request that is long enough."""
    return [request.tpot_s for request in requests if request.output_tokens >= LEAST_TOKENS]


def table(found: Sequence[Score]) -> str:
    """One line a quantile, for people."""
    width = max(len(s.run) for s in found) + 14
    lines = [f"{'':<{width}}{'measured ms':>12}{'predicted ms':>14}{'error':>8}"]
    lines += [
        f"{f'{s.run}  {s.latency} {s.quantile}':<{width}}{s.measured_ms:>12,.1f}"
        f"{s.predicted_ms:>14,.1f}{s.error:>8.1%}"
        for s in found
    ]
    return "\n".join(lines)


def worst(found: Sequence[Score], latency: str, quantile: str) -> float:
    """The largest error of a quantile over all runs."""
    return max(s.error for s in found if s.latency == latency and s.quantile == quantile)
