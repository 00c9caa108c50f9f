"""Step times from an engine's own log, by non-negative least squares.

An interval of length T in which g tokens came out while b sequences decoded had n = g / b steps, so

    T = base · n + per_decode · g + per_prefill · p + per_context · kv · n

with p prompt tokens and kv tokens of context. Intervals in which the engine was idle part of the
time say nothing of its speed: those with fewer than ``LEAST_RUNNING`` running are left out.

Noise in g is noise in the regressors, which flattens the slopes, and b and kv rise together:
``refining.py`` goes on from here.

An engine that counts its own steps says n, Σb, Σp and the time they took outright: ``from_moments``
takes those, and only the context is worked out from the requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

from benchmarks.simulator_truth.measured import Request, Sample, context_tokens
from engine.simulated.step_times import StepTimes
from signals.events import StepMoments

LEAST_RUNNING = 2
LONGEST_S = 2.0
"""A longer interval has idle time in it: the logs write nothing then."""


def step_times(requests: Sequence[Request], samples: Sequence[Sample]) -> StepTimes:
    """What a step costs, in µs, by the samples alone."""
    found = [*_rows(requests, samples)]
    return _solved([row for row, _ in found], [length_us for _, length_us in found])


def entangled(requests: Sequence[Request], samples: Sequence[Sample]) -> float:
    """How far sequences and their context rise together (correlation over intervals): near 1,
    the run cannot tell what each of them costs."""
    steps, decoded, _, context = np.array([row for row, _ in _rows(requests, samples)]).T
    busy = steps > 0
    return float(np.corrcoef(decoded[busy] / steps[busy], context[busy] / steps[busy])[0, 1])


def _rows(
    requests: Sequence[Request], samples: Sequence[Sample]
) -> Iterator[tuple[tuple[float, ...], float]]:
    """(steps, tokens decoded, prompt tokens, context × steps) of busy intervals, and their µs."""
    for before, sample in pairwise(samples):
        running = (before.running + sample.running) / 2
        if running < LEAST_RUNNING or not 0 < sample.length_s <= LONGEST_S:
            continue
        steps = sample.output_tokens / running
        context = context_tokens(requests, sample.at_s - sample.length_s / 2)
        row = (steps, sample.output_tokens, sample.prompt_tokens, context * steps)
        yield row, sample.length_s * 1e6


def from_moments(
    requests: Sequence[Request], seconds: Sequence[tuple[float, float, StepMoments]]
) -> StepTimes:
    """What a step costs, in µs, by the engine's own step sums: (end, length, sums) of each second.

    >>> at = lambda n, b, f: (1.0, 1.0, StepMoments(n=n, b=b, f=f, t=9000 * n + 300 * b + 60 * f))
    >>> found = from_moments([], [at(10, 20, 0), at(10, 80, 50), at(5, 5, 400)])
    >>> round(found.base_us), round(found.per_decode_us), round(found.per_prefill_us)
    (9000, 300, 60)
    """
    busy = [(at_s - length_s / 2, sums) for at_s, length_s, sums in seconds if sums.n > 0]
    rows = [(s.n, s.b, s.f, context_tokens(requests, middle_s) * s.n) for middle_s, s in busy]
    return _solved(rows, [float(sums.t) for _, sums in busy])


def _solved(rows: Sequence[tuple[float, ...]], lengths_us: Sequence[float]) -> StepTimes:
    """Non-negative least squares, columns scaled alike."""
    largest = np.array(rows).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0)
    found, _ = nnls(np.array(rows) / scale, np.array(lengths_us))
    base, decode, prefill, context_us = (found / scale).tolist()
    return StepTimes(
        base_us=base, per_decode_us=decode, per_prefill_us=prefill, per_context_us=context_us
    )
