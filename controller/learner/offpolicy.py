"""Off-policy estimates: what another way of choosing would have earned, from what was logged.

Units, not requests: a unit is one decision's block, its reward counted after the washout. With
logged propensities p, the target policy's probabilities π, rewards r and a reward model q,

    w = π(a)/p(a)        IPS = mean(w·r)        SNIPS = Σ w·r / Σ w
    DR = mean( Σ_b π(b)·q(b) + w·(r − q(a)) )

IPS is unbiased where p is exact; SNIPS trades a little bias for much variance; DR is unbiased too,
and as exact as q is good.

The interval is v ± (t + b). t is Student's reach of the unit terms (SNIPS: linearised), or of the
means of 20 runs of consecutive units if that is wider: units beside each other are alike. b is for
what an adaptive log has too few of: the weighted log should have the target's own mix of actions,
and what it is off by, ``Σ_a |mean(w·[a chosen]) − π(a)|``, is multiplied by what an action can
differ by (IPS: the value by SNIPS; else the deviation of reward about it). Without b the intervals
of adaptive logs hold the truth in 70 to 90 of a hundred; ``make bench-deciding`` counts with it.

Refused rather than guessed: *support* is the share of π's probability on actions that could have
been logged; below 90 % the data says nothing about the rest. And with an effective sample
(Σw)²/Σw² below ``LEAST_EFFECTIVE`` a few units would speak for all.

An estimate may keep a trial from starting. It never grants ``auto``, and there is nothing here that
could: logs speak about the days they were written on.

>>> units = [
...     Unit(chosen=i % 2, propensities=(0.5, 0.5), target=(0.2, 0.8), reward=float(i % 2),
...          span_s=60, since_change_s=60)
...     for i in range(100)
... ]
>>> found = estimate(units, washout_s=10, by="snips")
>>> round(found.value, 2), round(found.effective), found.support
(0.8, 74, 1.0)

Why not a model of reward alone (the direct method): its bias is whatever the model has not seen,
and the interval would not know. Why not clipped weights: the bias is one-sided and unknown.

Reference: M. Dudík, J. Langford, L. Li, "Doubly robust policy evaluation and learning" (ICML 2011);
A. Swaminathan, T. Joachims, "The self-normalized estimator for counterfactual learning" (2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.special import stdtrit

from controller.learner.port import MAX_REWARD, check_number
from signals.errors import Rejected

Array = NDArray[np.float64]
By = Literal["ips", "snips", "dr"]

LEAST_SUPPORT: Final = 0.9
LEAST_EFFECTIVE: Final = 10.0
CONFIDENCE: Final = 0.95
RUNS: Final = 20
SUM_ERROR: Final = 1e-6


class Unit(Struct, frozen=True, kw_only=True):
    """One logged decision. Probabilities and predictions are over the same actions.

    ``since_change_s``: from the last change of what was in force to the unit's end; a unit that was
    not given more than the washout since then is still the action before it.
    ``predictions``: q of each action, for DR; may not come from a model that saw this reward.
    """

    chosen: int
    propensities: tuple[float, ...]
    target: tuple[float, ...]
    reward: float
    span_s: float
    since_change_s: float
    predictions: tuple[float, ...] = ()


class Estimate(Struct, frozen=True, kw_only=True):
    """Mean reward per unit under the target policy, with its interval and what it rests on.

    ``left_out``: units within the washout.
    """

    by: By
    value: float
    low: float
    high: float
    units: int
    left_out: int
    effective: float
    support: float

    def words(self) -> str:
        """The estimate as an operator reads it."""
        return (
            f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g}) by {self.by.upper()} from"
            f" {self.units} units, worth {self.effective:.0f}; {self.support:.0%} support"
        )


def estimate(units: Sequence[Unit], *, washout_s: float, by: By) -> Estimate:
    """What the target policy would have earned. Raises ``Rejected`` where the log can't say."""
    counted = [unit for unit in units if min(unit.span_s, unit.since_change_s) > washout_s]
    if len(counted) < 2:
        raise Rejected(
            f"{len(counted)} units are left after a washout of {washout_s:g} s",
            field="units",
            value=len(counted),
            allowed=">= 2",
        )
    for unit in counted:
        _check(unit, by)
    support = _support(counted)
    if support < LEAST_SUPPORT:
        raise Rejected(
            f"the log could have shown {support:.0%} of what this policy does",
            field="support",
            value=round(support, 4),
            allowed=f">= {LEAST_SUPPORT:g}",
        )
    weights = np.array([u.target[u.chosen] / u.propensities[u.chosen] for u in counted])
    effective = _effective(weights)
    if effective < LEAST_EFFECTIVE:
        raise Rejected(
            f"{len(counted)} units are worth {effective:.1f}",
            field="effective",
            value=round(effective, 2),
            allowed=f">= {LEAST_EFFECTIVE:g}",
        )
    value, terms = _terms(counted, weights, by)
    reach = max(_reach(terms, effective), _reach_of_runs(terms))
    reach += _imbalance(counted, weights) * _apart(counted, weights, value, by)
    return Estimate(
        by=by,
        value=value,
        low=value - reach,
        high=value + reach,
        units=len(counted),
        left_out=len(units) - len(counted),
        effective=effective,
        support=support,
    )


def _terms(units: Sequence[Unit], weights: Array, by: By) -> tuple[float, Array]:
    """The estimate, and one term a unit whose spread is its error."""
    rewards = np.array([unit.reward for unit in units])
    if by == "ips":
        terms = weights * rewards
        return float(terms.mean()), terms
    if by == "snips":
        value = float((weights * rewards).sum() / weights.sum())
        return value, value + (weights * (rewards - value)) / weights.mean()
    model = [
        math.fsum(t * q for t, q in zip(unit.target, unit.predictions, strict=True))
        for unit in units
    ]
    chosen = np.array([unit.predictions[unit.chosen] for unit in units])
    terms = np.array(model) + weights * (rewards - chosen)
    return float(terms.mean()), terms


def _reach(terms: Array, effective: float) -> float:
    """Half the interval's width: Student's t with as many degrees as the sample is worth."""
    error = float(terms.std(ddof=1)) / math.sqrt(len(terms))
    return float(stdtrit(effective - 1, (1 + CONFIDENCE) / 2)) * error


def _reach_of_runs(terms: Array) -> float:
    """The same from the means of consecutive units; 0 where there are too few for runs."""
    length = len(terms) // RUNS
    if length < 2:
        return 0.0
    means = terms[: RUNS * length].reshape(RUNS, length).mean(axis=1)
    return _reach(means, RUNS)


def _imbalance(units: Sequence[Unit], weights: Array) -> float:
    """How far the weighted log's mix of actions is from the target's; 0 to about 2."""
    mixes = np.array([unit.target for unit in units])
    logged = np.zeros_like(mixes)
    logged[np.arange(len(units)), [unit.chosen for unit in units]] = weights
    return float(np.abs((logged - mixes).mean(axis=0)).sum())


def _apart(units: Sequence[Unit], weights: Array, value: float, by: By) -> float:
    """What one action can differ by from the rest, in reward."""
    rewards = np.array([unit.reward for unit in units])
    if by == "ips":  # Not its own value: what the log has too few of is missing from that.
        return abs(float((weights * rewards).sum() / weights.sum()))
    off = rewards - value
    return math.sqrt(float((weights * off**2).sum() / weights.sum()))


def _effective(weights: Array) -> float:
    """(Σw)²/Σw²: how many equally weighted units these are worth."""
    total = float(weights.sum())
    return total * total / float((weights**2).sum()) if total > 0 else 0.0


def _support(units: Sequence[Unit]) -> float:
    """The mean share of the target's probability on actions that could have been logged."""
    shares = [
        math.fsum(t for t, p in zip(unit.target, unit.propensities, strict=True) if p > 0)
        for unit in units
    ]
    return math.fsum(shares) / len(shares)


def _check(unit: Unit, by: By) -> None:
    """Raise ``Rejected`` unless the unit's figures belong together."""
    check_number("reward", unit.reward, MAX_REWARD)
    size = len(unit.propensities)
    for name, found in (("propensities", unit.propensities), ("target", unit.target)):
        total = math.fsum(found)
        if len(found) != size or min(found, default=-1.0) < 0 or abs(total - 1) > SUM_ERROR:
            raise Rejected(
                f"{name} are {size} shares that sum to 1", field=name, value=f"sum {total:.6g}"
            )
    if not 0 <= unit.chosen < size or unit.propensities[unit.chosen] <= 0:
        raise Rejected("what was chosen could not have been", field="chosen", value=unit.chosen)
    if by == "dr" and len(unit.predictions) != size:
        raise Rejected(
            "DR needs a prediction for each action",
            field="predictions",
            value=len(unit.predictions),
            allowed=size,
        )
    for prediction in unit.predictions:
        check_number("predictions", prediction, MAX_REWARD)
