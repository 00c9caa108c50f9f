"""Business rates of requests whose attribution has closed, each producer within its cap. Pure.

**Censoring.** Feedback may come until ``attribution_s`` after a request arrived. Until then a
request without a value is open: its silence means nothing yet. So a rate is of *cohorts*: windows
of arrivals for which the watermark has passed end + ``attribution_s``, the latest ``span_s`` of
these. Open requests are counted beside. A request without a value when it closes is a zero, or
nothing, as the metric says (``absent_counts``).

**Shares.** Producer p says the mean m_p of n_p values; p's share of the rate is ::

    s_p = n_p / T              uncapped
    s_p = min(c_p, n_p / T)    capped at c_p < 1
    T   = max(D, U + Σ min(c_p T, n_p))   over the capped;  U = Σ n_p over the uncapped

    rate = Σ s_p m_p           what is left to 1 are zeros

with D = max(requests, U) where silence is a zero, and D = 0 where it is nothing. Below their caps
all values weigh the same; a producer over its cap weighs exactly its cap: its n_p values are scaled
by w with w n_p / (all other weight + w n_p) = c_p.

**Bound.** Whatever a producer p capped at c_p says, and however often, the rate differs from what
it is without p by at most c_p (high - low), low and high being the metric's bounds, widened to
hold 0 where silence is a zero. *Proof.* D does not depend on p. f(T) = U + Σ min(c_q T, n_q) is
concave, positive at 0 and bounded, so f(T) = T has one root, and one more term min(c_p T, n_p) >= 0
moves it up: T does not shrink when p is added. Hence no other producer's share grows: n/T does
not, nor does min(c, n/T). Nor do the zeros': they are D's rest while T = D, and none when T > D.
Shares add up to 1 with and without p, so the others lose together exactly what p gains, s_p <= c_p:
the rate moves by s_p m_p - Σ loss_q m_q with Σ loss_q = s_p, and every m is within the bounds. ∎
(U = 0 and D = 0: capped producers alone carry it, and the rate is unknown.)

>>> shares({"app": 100, "shop": 100}, {"app": 0.25}, requests=0)
{'app': 0.25, 'shop': 0.75}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from signals.definitions import Definition, absent_counts
from signals.events import MICROS
from signals.features.keeping import retention_s
from signals.features.model import WIDTHS_S, WindowRevision
from signals.features.windows import end_us
from signals.settings import FeatureSettings, MetricSettings

_WINDOWS_A_SPAN = 12
"""A rate's stretch is made of about this many windows: its end is late by less than a twelfth."""


class FromProducer(Struct, frozen=True, kw_only=True):
    """What one producer said: requests with a value, their mean, and its share of the rate."""

    requests: int
    mean: float
    share: float


class Rate(Struct, frozen=True, kw_only=True):
    """A metric's mean over closed requests; ``value`` None: unknown.

    ``closed_requests`` arrived in the stretch [from, to) it is of, ``with_value`` values of them
    were given; ``open_requests`` arrived later, and may still get one.
    """

    value: float | None
    closed_requests: int
    with_value: int
    open_requests: int
    from_us: int
    to_us: int
    by_producer: Mapping[str, FromProducer]


def rates(
    windows: Sequence[WindowRevision],
    definitions: Mapping[str, Definition],
    *,
    watermark_us: int,
    span_s: int,
    caps: Mapping[str, float],
) -> dict[str, Rate]:
    """The rate of each metric over ``windows`` of one width, of a target or one of its intents.

    Which of them are closed for a metric is found out here. ``caps``: producer -> largest share. A
    metric for which nothing has closed has no rate, not even an unknown one.
    """
    found = {}
    for name, definition in sorted(definitions.items()):
        closed_us = watermark_us - definition.metric.attribution_s * MICROS
        rate = _rate(name, definition.metric, windows, closed_us, span_s, caps)
        if rate is not None:
            found[name] = rate
    return found


def width_for(attribution_s: int, settings: FeatureSettings) -> int:
    """Which windows a rate reads: the widest of at most a twelfth of its stretch, among those kept
    long enough; else the narrowest of these."""
    back_s = attribution_s + settings.lateness_s + settings.rate_span_s
    kept = [width for width in WIDTHS_S if retention_s(width, settings) >= back_s + 2 * width]
    fine = [width for width in kept if width * _WINDOWS_A_SPAN <= settings.rate_span_s]
    return max(fine, default=min(kept, default=WIDTHS_S[-1]))


def stretch(*, watermark_us: int, attribution_s: int, span_s: int, width_s: int) -> tuple[int, int]:
    """[from, to) of the latest window starts that are closed for a metric, ``span_s`` of them."""
    width_us = width_s * MICROS
    closed_us = watermark_us - attribution_s * MICROS
    to_us = closed_us - closed_us % width_us
    return to_us - max(width_us, span_s * MICROS - span_s * MICROS % width_us), to_us


def shares(
    values: Mapping[str, int], caps: Mapping[str, float], *, requests: int
) -> dict[str, float] | None:
    """Each producer's share of the rate. ``values``: how many each gave; ``requests``: how many a
    rate with zeros is of, 0 without. None: capped producers alone would carry it.

    >>> shares({"app": 30}, {"app": 0.25}, requests=40)
    {'app': 0.25}
    >>> shares({"app": 30}, {"app": 0.25}, requests=0) is None
    True
    """
    capped = {name: caps[name] for name in values if caps.get(name, 1.0) < 1.0}
    uncapped = sum(count for name, count in values.items() if name not in capped)
    floor = max(requests, uncapped) if requests else 0
    if not floor and not uncapped:
        return None
    total = max(float(floor), _root(values, capped, uncapped))
    found = {
        name: min(capped.get(name, 1.0), count / total) for name, count in sorted(values.items())
    }
    return None if not uncapped and sum(found.values()) >= 1.0 else found


def _root(values: Mapping[str, int], capped: Mapping[str, float], uncapped: int) -> float:
    """The largest T with T = U + Σ min(c T, n): who is furthest over the cap is bound first."""
    free, room = float(uncapped + sum(values[name] for name in capped)), 1.0
    for name in sorted(capped, key=lambda each: (capped[each] / values[each], each)):
        if values[name] <= capped[name] * free / room:
            break
        free, room = free - values[name], room - capped[name]
    return free / room


def _rate(
    name: str,
    metric: MetricSettings,
    windows: Sequence[WindowRevision],
    closed_us: int,
    span_s: int,
    caps: Mapping[str, float],
) -> Rate | None:
    closed = [window for window in windows if window.closed and end_us(window.key) <= closed_us]
    if not closed:
        return None
    to_us = max(end_us(window.key) for window in closed)
    widest_us = max(window.key.width_s for window in closed) * MICROS
    from_us = to_us - max(widest_us, span_s * MICROS)
    recent = [window for window in closed if window.key.start_us >= from_us]
    given = _given(name, recent)
    requests = sum(window.counts.requests for window in recent)
    counts = {producer: count for producer, (count, _) in given.items()}
    zeros = requests if absent_counts(metric) else 0
    of = shares(counts, caps, requests=zeros)
    means = {producer: micros / MICROS / count for producer, (count, micros) in given.items()}
    return Rate(
        value=None if of is None else sum(of[each] * means[each] for each in of),
        closed_requests=requests,
        with_value=sum(counts.values()),
        open_requests=sum(w.counts.requests for w in windows if w.key.start_us >= to_us),
        from_us=from_us,
        to_us=to_us,
        by_producer={
            producer: FromProducer(
                requests=count, mean=means[producer], share=(of or {}).get(producer, 0.0)
            )
            for producer, count in sorted(counts.items())
        },
    )


def _given(name: str, windows: Iterable[WindowRevision]) -> dict[str, tuple[int, int]]:
    """Producer -> (requests with a value, sum of values in micro-units)."""
    found: dict[str, tuple[int, int]] = {}
    for window in windows:
        for producer, (count, micros) in window.counts.outcomes.get(name, {}).items():
            so_far = found.get(producer, (0, 0))
            found[producer] = (so_far[0] + count, so_far[1] + micros)
    return {producer: (count, micros) for producer, (count, micros) in found.items() if count > 0}
