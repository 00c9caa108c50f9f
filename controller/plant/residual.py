"""What the formula leaves out: a monotone correction along the ladder, from tested values only.

Where a value was tested, observed and predicted differ by a factor. Its logarithm r = ln(observed /
predicted) is taken to rise along the ladder (or to fall, where the caller says so): a formula that
leaves out a cost of batching leaves out more of it at a larger batch. So the corrections are the
*isotonic regression* of the measurements, each weighted by w = weight · 2^(−age / half_life)::

    minimise Σ w·(r − m)²   with   m₁ ≤ m₂ ≤ …

and a prior of no correction (r = 0) with a weight of its own at each tested value, so that what is
old fades into the formula. Between tested values: straight in the ladder's places. Beyond them
nothing is extrapolated: the edge's correction, and one widening of the uncertainty for each ladder
value beyond; a line through two tested values says nothing of a third (see EVIDENCE: a bound of .98
at a cap of 20, from data up to 12, where the truth was .40).

>>> model = PlantSettings(residual_prior=0.001)
>>> seen = [Measured(value=8, log_ratio=0.2, at_us=0), Measured(value=4, log_ratio=0.1, at_us=0)]
>>> found = Residual.of(seen, (2, 4, 8, 16, 32), now_us=0, model=model)
>>> [round(found.at(value).mean, 2) for value in (2, 4, 8, 16, 32)]
[0.1, 0.1, 0.2, 0.2, 0.2]
>>> [round(found.at(value).deviation - found.at(8).deviation, 2) for value in (16, 32)]
[0.1, 0.2]

Pool-adjacent-violators: Barlow, Bartholomew, Bremner & Brunk, *Statistical Inference under Order
Restrictions*, 1972. Own code instead of ``scipy.optimize.isotonic_regression``: a dozen lines, and
they say how much weight stands behind each step. Why not a Gaussian process: its length scale would
be learned from the three values a knob was ever tested at.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller.plant.settings import PlantSettings
from signals.events import MICROS


class Measured(Struct, frozen=True, kw_only=True):
    """One measurement at a ladder value: ``log_ratio`` = ln(observed / predicted), when, how much.

    ``weight``: 1 for one trial's arm. ``fingerprint``: of the engine it was measured on.
    """

    value: int
    log_ratio: float
    at_us: int
    weight: float = 1.0
    fingerprint: str = ""


class Correction(Struct, frozen=True, kw_only=True):
    """What to multiply a prediction by: e^``mean``, give or take ``deviation`` in the log.

    ``beyond``: ladder values beyond the nearest tested one; 0 among tested ones.
    """

    mean: float = 0.0
    deviation: float = 0.0
    beyond: int = 0

    @property
    def factor(self) -> float:
        """The middle of it."""
        return math.exp(self.mean)

    def worst(self, deviations: float = 1.0) -> float:
        """The factor so many deviations above the middle."""
        return math.exp(self.mean + deviations * self.deviation)


class Residual(Struct, frozen=True, kw_only=True):
    """The corrections at the tested values: ladder places, means, and the weights behind them."""

    ladder: tuple[int, ...]
    places: tuple[int, ...] = ()
    means: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    spread: float = 0.0
    widening: float = 0.0

    @classmethod
    def of(
        cls,
        tested: Iterable[Measured],
        ladder: Sequence[int],
        *,
        now_us: int,
        model: PlantSettings,
        rising: bool = True,
    ) -> Residual:
        """Fit it. Values that are not on the ladder and ratios that are not finite are left out."""
        places = {value: place for place, value in enumerate(ladder)}
        sums: dict[int, tuple[float, float]] = {}
        for one in tested:
            if one.value not in places or not math.isfinite(one.log_ratio):
                continue
            age_s = max(0, now_us - one.at_us) / MICROS
            weight = one.weight * 2.0 ** -(age_s / model.residual_half_life_s)
            total, against = sums.get(places[one.value], (0.0, 0.0))
            sums[places[one.value]] = (total + weight, against + weight * one.log_ratio)
        known = sorted(sums)
        weights = [sums[place][0] + model.residual_prior for place in known]
        values = [sums[place][1] / weight for place, weight in zip(known, weights, strict=True)]
        sign = 1.0 if rising else -1.0
        means = isotonic([sign * value for value in values], weights)
        return cls(
            ladder=tuple(ladder),
            places=tuple(known),
            means=tuple(sign * mean for mean in means),
            weights=tuple(weights),
            spread=model.residual_spread,
            widening=model.residual_widening,
        )

    def at(self, value: int) -> Correction:
        """The correction at a ladder value; where nothing was tested only uncertainty."""
        place = bisect_left(self.ladder, value)
        if not self.places:
            return Correction(deviation=self.spread + self.widening)
        if place <= self.places[0]:
            return self._edge(0, self.places[0] - place)
        if place >= self.places[-1]:
            return self._edge(-1, place - self.places[-1])
        right = bisect_left(self.places, place)
        left = right if self.places[right] == place else right - 1
        span = self.places[right] - self.places[left]
        share = (place - self.places[left]) / span if span else 0.0
        mean = self.means[left] + share * (self.means[right] - self.means[left])
        weight = (1 - share) * self.weights[left] + share * self.weights[right]
        return Correction(mean=mean, deviation=self._deviation(weight))

    def _edge(self, index: int, beyond: int) -> Correction:
        deviation = self._deviation(self.weights[index]) + beyond * self.widening
        return Correction(mean=self.means[index], deviation=deviation, beyond=beyond)

    def _deviation(self, weight: float) -> float:
        return self.spread / math.sqrt(weight)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to ``values``, squares weighted; weights are positive.

    Each value begins a pool; a pool that is lower than the one before it joins it.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] >= mean:
            before, more, many = pools.pop()
            mean = (mean * total + before * more) / (total + more)
            total, count = total + more, count + many
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]
