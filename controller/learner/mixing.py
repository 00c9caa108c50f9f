"""Propensities exact by construction: mix first, store, and only then draw from what is stored.

A bandit's own shares f (posterior arm frequencies, or all on the greedy arm) say what it prefers.
Mixed with ε uniform over the m allowed actions,

    p_a = (1 − ε)·f_a + ε/m,

every allowed action keeps at least ε/m, so importance weights are bounded by m/ε; and the draw uses
p itself, so what is logged is what was done, however coarse f may be.

>>> mixed([0.75, 0.25], (True, True, False), uniform=0.5)
(0.625, 0.375, 0.0)
>>> pick((0.625, 0.375, 0.0), 0.6), pick((0.625, 0.375, 0.0), 0.7)
(0, 1)

Why not log the frequency of a second, larger simulation: it estimates the propensity, and the error
of an estimate that is divided by does not average out. Why not ε-greedy outside the mix: the same
numbers, but two sources of chance to replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def mixed(best: Sequence[float], mask: Sequence[bool], *, uniform: float) -> tuple[float, ...]:
    """``uniform`` of the mass spread over the allowed actions, the rest by their shares.

    ``best``: one share an *allowed* action, in order; they sum to 1. Masked actions get 0.
    """
    floor, kept, shares = uniform / sum(mask), 1.0 - uniform, iter(best)
    return tuple(kept * next(shares) + floor if may else 0.0 for may in mask)


def best_shares(drawn: Array) -> list[float]:
    """The share of columns in which each row is the largest; ties are shared.

    >>> best_shares(np.array([[1.0, 3.0], [2.0, 3.0]]))
    [0.25, 0.75]
    """
    best, columns = drawn == np.maximum.reduce(drawn, axis=0), drawn.shape[1]
    counts: list[float] = best.dot(_ones(columns)).tolist()
    if sum(counts) > columns:
        counts = (best / best.sum(axis=0)).sum(axis=1).tolist()
    return [count / columns for count in counts]


@lru_cache(maxsize=8)
def _ones(count: int) -> Array:
    return np.ones(count)


def certain(index: int, size: int) -> tuple[float, ...]:
    """All the mass on one action: what a comparator without chance logs."""
    return tuple(1.0 if at == index else 0.0 for at in range(size))


def even(indexes: Sequence[int], size: int) -> tuple[float, ...]:
    """The mass spread evenly over some actions (at least one)."""
    share = 1.0 / len(indexes)
    return tuple(share if at in indexes else 0.0 for at in range(size))


def pick(propensities: Sequence[float], u: float) -> int:
    """The index that ``u`` (uniform in [0, 1)) falls on; never one of propensity 0."""
    left = u
    last = 0
    for index, p in enumerate(propensities):
        if p <= 0.0:
            continue
        last = index
        left -= p
        if left < 0.0:
            return index
    return last  # rounding left a rest above the sum
