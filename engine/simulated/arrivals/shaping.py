"""Arrivals out of arrivals: merged, faster, thinned, one window of them, more or fewer.

All are lazy, and keep the order by arrival. None makes what it returns depend on an engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import takewhile

import numpy as np
from msgspec.structs import replace

from engine.simulated.arrivals.bounds import MOST_S, above, within
from engine.simulated.offered import Arrivals, Offered

MOST_FACTOR = 1e6


def merged(*streams: Iterable[Offered]) -> Arrivals:
    """All of them, by arrival; on a tie the earlier argument comes first."""
    return heapq.merge(*streams, key=lambda offered: offered.arrival_s)


def faster(arrivals: Iterable[Offered], factor: float) -> Arrivals:
    """The same requests ``factor`` times as fast: a day in an hour is 24. Bursts get denser too."""
    above("factor", factor, 0.0, MOST_FACTOR)
    return (replace(offered, arrival_s=offered.arrival_s / factor) for offered in arrivals)


def later(arrivals: Iterable[Offered], by_s: float) -> Arrivals:
    """The same requests, ``by_s`` seconds later."""
    return (replace(offered, arrival_s=offered.arrival_s + by_s) for offered in arrivals)


def window(arrivals: Iterable[Offered], from_s: float, to_s: float) -> Arrivals:
    """What arrives in [from, to), counted from ``from_s``."""
    until = takewhile(lambda offered: offered.arrival_s < to_s, arrivals)
    return later((offered for offered in until if offered.arrival_s >= from_s), -from_s)


def thinned(
    arrivals: Iterable[Offered], share: Callable[[float], float], rng: np.random.Generator
) -> Arrivals:
    """Each request stays with the probability that ``share`` gives for its arrival, in [0, 1].

    A Poisson stream of rate r becomes one of rate r · share(t), exactly (Lewis and Shedler, 1979).
    """
    return (offered for offered in arrivals if rng.random() < share(offered.arrival_s))


def rate_scaled(
    arrivals: Iterable[Offered],
    factor: float,
    rng: np.random.Generator,
    *,
    spread_s: float = 1.0,
) -> Arrivals:
    """``factor`` times as many requests in the same time, with the same day and the same mix.

    Each request comes ⌊factor⌋ times and once more by chance for the rest. The first one keeps its
    moment; copies come within ``spread_s`` after it, evenly at random, and have no session.

    Why not ``faster``: it would shorten the day, and with it every trend that is to be followed.
    """
    above("factor", factor, 0.0, MOST_FACTOR)
    within("spread_s", spread_s, 0.0, MOST_S)
    waiting: list[tuple[float, int, Offered]] = []
    counted = 0
    for offered in arrivals:
        while waiting and waiting[0][0] <= offered.arrival_s:
            yield heapq.heappop(waiting)[2]
        copies = int(factor) + (rng.random() < factor - int(factor))
        for copy in range(copies):
            counted += 1
            again = offered if copy == 0 else _copied(offered, spread_s * rng.random())
            heapq.heappush(waiting, (again.arrival_s, counted, again))
    while waiting:
        yield heapq.heappop(waiting)[2]


def in_sessions(
    arrivals: Iterable[Offered],
    rng: np.random.Generator,
    *,
    mean_requests: float,
    open_at_once: int = 64,
) -> Arrivals:
    """Each request belongs to one of the open sessions, which ends after it by chance.

    Sessions have ``mean_requests`` requests on average (geometric); a new one follows at once.
    """
    above("mean_requests", mean_requests, 0.999, MOST_FACTOR)
    above("open_at_once", open_at_once, 0, MOST_FACTOR)
    sessions, opened = list(range(open_at_once)), open_at_once
    for offered in arrivals:
        which = int(rng.integers(open_at_once))
        yield replace(offered, session=f"session_{sessions[which]}")
        if rng.random() * mean_requests < 1.0:
            sessions[which] = opened
            opened += 1


def _copied(offered: Offered, after_s: float) -> Offered:
    return replace(offered, arrival_s=offered.arrival_s + after_s, session=None)
