"""Arrivals out of arrivals: merged, faster, thinned, one window of them, more or fewer.

All are lazy, and keep the order by arrival. None makes what it returns depend on an engine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import takewhile

import numpy as np
from msgspec.structs import replace

from engine.simulated.offered import Arrivals, Offered
from signals.errors import Rejected


def merged(*streams: Iterable[Offered]) -> Arrivals:
    """All of them, by arrival; on a tie the earlier argument comes first."""
    return heapq.merge(*streams, key=lambda offered: offered.arrival_s)


def faster(arrivals: Iterable[Offered], factor: float) -> Arrivals:
    """The same requests ``factor`` times as fast: a day in an hour is 24. Bursts get denser too."""
    _positive("factor", factor)
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
    _positive("factor", factor)
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


def _copied(offered: Offered, after_s: float) -> Offered:
    return replace(offered, arrival_s=offered.arrival_s + after_s, session=None)


def _positive(field: str, value: float) -> None:
    if not 0 < value < float("inf"):
        detail = f"{field} {value!r}: a finite number above 0"
        raise Rejected(detail, field=field, value=value, allowed="above 0")
