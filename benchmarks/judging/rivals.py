"""Four usual ways of judging, on an hour of two replicas between which nothing differs by design.

=======================  ==========================================================================
confidence sequence      per request, of the difference in attainment: Robbins's normal mixture
                         with plugged-in variances, looked at after each 5 s, α .01
t-test                   Welch's, of log TTFT over all requests so far, each 5 s, p < .01
Mann–Whitney             of TTFT over all requests so far, each minute, p < .01
three bad minutes        p95 TTFT of a minute above 1.1 × the other's, three minutes in a row
=======================  ==========================================================================

Each takes replica 0 for the candidate; an alarm is any verdict, in either direction (three bad
minutes: against the candidate), within the hour. With one replica 3 % slower, the alarm is about
the replica: no coin has taken it for the candidate.

References: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals
of Mathematical Statistics 41 (1970); I. Waudby-Smith et al., "Time-uniform central limit theory and
asymptotic confidence sequences", Annals of Statistics 52 (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, ttest_ind_from_stats

from benchmarks.queue_model import LIVE, QueueModel
from signals.events import MICROS

ALPHA = 0.01
LOOK_S, MINUTE_S = 5, 60
SOONEST = 50
"""Requests an arm needs before the first look."""
WORSE, BAD_MINUTES = 1.1, 3
UNFINISHED_S = 60.0
RHO2 = 10.0 / 4000.0
"""The mixture's variance: narrowest at some 4,000 requests."""

Column = NDArray[np.float64]


class Arm:
    """One replica's chats by arrival, in the hour: when they came, TTFT in seconds, good or not."""

    def __init__(self, model: QueueModel, from_s: float, length_s: float) -> None:
        rows = [
            request
            for request in model.arrived(
                round(from_s * MICROS), round((from_s + length_s) * MICROS)
            )
            if request.intent == LIVE
        ]
        self.at_s: Column = np.array([row.arrival_us / MICROS - from_s for row in rows])
        self.ttft_s: Column = np.array(
            [
                UNFINISHED_S if row.first_us is None else (row.first_us - row.arrival_us) / MICROS
                for row in rows
            ]
        )
        self.good: Column = np.array([float(row.missed_us is None) for row in rows])

    def until(self, at_s: float) -> int:
        """How many came by then."""
        return int(np.searchsorted(self.at_s, at_s, side="right"))

    def minute(self, start_s: float) -> Column:
        """TTFTs of a minute's arrivals."""
        return self.ttft_s[self.until(start_s) : self.until(start_s + MINUTE_S)]


def alarms(models: Sequence[QueueModel], from_s: float, length_s: int) -> dict[str, bool]:
    """What each rival says of two replicas: whether it ever gave an alarm."""
    candidate, baseline = (Arm(model, from_s, length_s) for model in models)
    looks = [
        (candidate.until(at_s), baseline.until(at_s))
        for at_s in range(LOOK_S, length_s + 1, LOOK_S)
    ]
    looks = [look for look in looks if min(look) >= SOONEST]
    return {
        "confidence sequence": _sequence(candidate.good, baseline.good, looks),
        "t-test": _t_test(np.log(candidate.ttft_s), np.log(baseline.ttft_s), looks),
        "Mann-Whitney": _mann_whitney(candidate, baseline, length_s),
        "three bad minutes": _bad_minutes(candidate, baseline, length_s),
    }


def _moments(values: Column) -> tuple[Column, Column]:
    """Mean and variance of every prefix."""
    n = np.arange(1, len(values) + 1)
    means: Column = np.cumsum(values) / n
    variances: Column = np.maximum(np.cumsum(values**2) / n - means**2, 0.0)
    return means, variances


def _sequence(a: Column, b: Column, looks: Sequence[tuple[int, int]]) -> bool:
    (mean_a, var_a), (mean_b, var_b) = _moments(a), _moments(b)
    for n, m in looks:
        t = min(n, m)
        spread = math.sqrt(var_a[n - 1] * t / n + var_b[m - 1] * t / m)
        reach = spread * math.sqrt(
            2 * (t * RHO2 + 1) / (t * t * RHO2) * math.log(math.sqrt(t * RHO2 + 1) / (ALPHA / 2))
        )
        if abs(mean_a[n - 1] - mean_b[m - 1]) > reach > 0:
            return True
    return False


def _t_test(a: Column, b: Column, looks: Sequence[tuple[int, int]]) -> bool:
    (mean_a, var_a), (mean_b, var_b) = _moments(a), _moments(b)
    n, m = (np.array(side) for side in zip(*looks, strict=True))
    found = ttest_ind_from_stats(
        mean_a[n - 1],
        np.sqrt(var_a[n - 1] * n / (n - 1)),
        n,
        mean_b[m - 1],
        np.sqrt(var_b[m - 1] * m / (m - 1)),
        m,
        equal_var=False,
    )
    return bool(np.any(found.pvalue < ALPHA))


def _mann_whitney(a: Arm, b: Arm, length_s: int) -> bool:
    return any(
        mannwhitneyu(
            a.ttft_s[: a.until(at_s)], b.ttft_s[: b.until(at_s)], method="asymptotic"
        ).pvalue
        < ALPHA
        for at_s in range(MINUTE_S, length_s + 1, MINUTE_S)
    )


def _bad_minutes(a: Arm, b: Arm, length_s: int) -> bool:
    row = 0
    for start_s in range(0, length_s, MINUTE_S):
        ours, theirs = a.minute(start_s), b.minute(start_s)
        bad = np.quantile(ours, 0.95) > WORSE * np.quantile(theirs, 0.95)
        row = row + 1 if bad else 0
        if row == BAD_MINUTES:
            return True
    return False
