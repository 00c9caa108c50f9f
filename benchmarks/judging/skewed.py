"""Streams of units whose harm is rare, hidden in the spread, or thin; none may ever be IMPROVED.

The judge is production's (``rule_on``), run without its limit of 60 units, to 500. Beside its sign
process stands ``controller.judge.betting`` on every metric, at half of the sign process's α per
metric; either may say HARMED. Each unit's values are drawn anew; the numbers are those below.
Streams are judged twice: by a plan as it is, and by one that asks for losses in 5 % of the units to
be excluded first (``rarest_loss``).

Three are published counter-examples to canary judges: seven of ten values a hundred times larger,
a change of variance alone, and a few errors among thousands. Six values of theirs against six
decide nothing at α .01, and must not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from benchmarks.judging import plans
from benchmarks.judging.bounds import clustered_upper
from benchmarks.judging.plans import LOG_TTFT, SWITCHBACK
from benchmarks.judging.trying import judged
from controller.judge.betting import bounded_e_path
from controller.judge.verdict import rule_on
from controller.trials import GuardPlan, Trial, TrialPlan, Unit

UNITS = 500
SAMPLE = 6
GUARD = "share within limits"
TYPICAL, NOISE = 0.1, 0.01
"""Spread of d of the primary metric, and of the guard, where nothing happens."""
RARE = 0.05
EXCEEDED = 10.0 + 1.645
"""The quantile guard's limit: the 95th percentile of the baseline, frozen before."""

SHARE_GUARD = GuardPlan(metric=GUARD, margin=0.05, scale=0.5)

Draw = Callable[[np.random.Generator, int], tuple[float, float]]
"""(d of the primary, d of the guard) of one unit; the number is how many values each arm has."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """``bounds``: |d| is never larger, in the primary metric and in the guard's."""

    name: str
    draw: Draw
    bounds: tuple[float, float]
    guard: GuardPlan = SHARE_GUARD
    values: int = 10


def _quiet(rng: np.random.Generator, level: float = 0.0) -> tuple[float, float]:
    d = float(np.clip(rng.normal(level, TYPICAL), -1.0, 1.0))
    return d, float(np.clip(rng.normal(0.0, NOISE), -0.5, 0.5))


def _nothing(rng: np.random.Generator, values: int) -> tuple[float, float]:
    return _quiet(rng)


def _rare_primary(level: float) -> Draw:
    def draw(rng: np.random.Generator, values: int) -> tuple[float, float]:
        d, guard = _quiet(rng, level)
        return (-2.0 if rng.random() < RARE else d), guard

    return draw


def _rare_guard(level: float) -> Draw:
    def draw(rng: np.random.Generator, values: int) -> tuple[float, float]:
        d, guard = _quiet(rng, level)
        return d, (-0.5 if rng.random() < RARE else guard)

    return draw


def _hundredfold(rng: np.random.Generator, values: int) -> tuple[float, float]:
    base = rng.normal(0.0, TYPICAL, values)
    other = rng.normal(0.0, TYPICAL, values) + np.log(100.0) * (rng.random(values) < 0.7)
    d = np.clip(base.mean() - other.mean(), -6.0, 6.0)
    return float(d), float(np.mean(other < 1.0) - np.mean(base < 1.0))


def _variance(rng: np.random.Generator, values: int) -> tuple[float, float]:
    base, other = rng.normal(10.0, 1.0, values), rng.normal(10.0, 5.0, values)
    d = np.clip((base.mean() - other.mean()) / 10.0, -2.0, 2.0)
    return float(d), float(np.mean(other <= EXCEEDED) - np.mean(base <= EXCEEDED))


def _errors(rng: np.random.Generator, values: int) -> tuple[float, float]:
    failed = rng.binomial(values, 0.001)
    return _quiet(rng)[0], -float(failed) / values


NOTHING = Stream(name="no effect", draw=_nothing, bounds=(1.0, 0.5))
HARMS = (
    Stream(name="5 % of units at −2, else no effect", draw=_rare_primary(0.0), bounds=(2.0, 0.5)),
    Stream(name="guard −.5 in 5 % of units", draw=_rare_guard(0.0), bounds=(1.0, 0.5)),
)
BOUGHT = (
    Stream(name="5 % of units at −2, else +.15", draw=_rare_primary(0.15), bounds=(2.0, 0.5)),
    Stream(name="5 % of units at −2, else +.08", draw=_rare_primary(0.08), bounds=(2.0, 0.5)),
    Stream(name="guard −.5 in 5 %, primary +.15", draw=_rare_guard(0.15), bounds=(1.0, 0.5)),
)
"""Gains in all other units; the second loses on average."""
COUNTER_EXAMPLES = (
    Stream(name="7 of 10 values at 100 ×", draw=_hundredfold, bounds=(6.0, 1.0)),
    Stream(name="variance alone, sd 1 → 5 at mean 10", draw=_variance, bounds=(2.0, 1.0)),
    Stream(
        name="1 error in 1,000, 1,000 a unit",
        draw=_errors,
        bounds=(1.0, 0.05),
        guard=GuardPlan(metric=GUARD, margin=0.005, scale=0.005),
        values=1000,
    ),
)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge made of a number of streams. Shares; ``units``: median, to HARMED.

    ``improved_upper``: the upper 95 % bound of ``improved``; ``careful``: of the plan by which rare
    losses are to be excluded first.
    """

    name: str
    careful: bool
    streams: int
    improved: float
    improved_upper: float
    harmed: float
    by_sign: float
    units: float | None
    samples_passed: float


def tell(stream: Stream, streams: int, seed: int, *, careful: bool = False) -> Told:
    """Judge so many streams of a kind."""
    plan = _plan(stream, careful)
    found = [_judge(stream, plan, np.random.default_rng([seed, n])) for n in range(streams)]
    caught = [units for verdict, units in found if verdict.startswith("HARMED")]
    verdicts = [verdict for verdict, _ in found]
    return Told(
        name=stream.name,
        careful=careful,
        streams=streams,
        improved=verdicts.count("IMPROVED") / streams,
        improved_upper=clustered_upper([v == "IMPROVED" for v in verdicts], [1] * streams),
        harmed=len(caught) / streams,
        by_sign=verdicts.count("HARMED") / streams,
        units=float(np.median(caught)) if caught else None,
        samples_passed=sum(
            _sample_passes(stream, plan, np.random.default_rng([seed, n, 6]))
            for n in range(streams)
        )
        / streams,
    )


def _plan(stream: Stream, careful: bool) -> TrialPlan:
    plan = msgspec.structs.replace(SWITCHBACK, guards=(stream.guard,), max_units=UNITS)
    return plans.careful(plan, RARE) if careful else plan


def _judge(stream: Stream, plan: TrialPlan, rng: np.random.Generator) -> tuple[str, int]:
    """The verdict and its unit; "HARMED, by betting" where the bet came first."""
    drawn = [stream.draw(rng, stream.values) for _ in range(UNITS)]

    def unit(at_s: float, in_force: TrialPlan, index: int) -> Unit:
        return _unit(index, drawn[index])

    ruled = judged(plan, unit)
    bet = _bet(plan, list(zip(*drawn, strict=True)), stream.bounds)
    if bet is not None and (bet < ruled.units or ruled.verdict == "INCONCLUSIVE"):
        return "HARMED, by betting", bet
    return ruled.verdict, ruled.units


def _bet(
    plan: TrialPlan, columns: Sequence[Sequence[float]], bounds: Sequence[float]
) -> int | None:
    """At which unit a bet on a loss was won, on any metric; None: never."""
    limit = 2 * (len(plan.guards) + 1) / plan.alpha
    won = []
    for column, bound in zip(columns, bounds, strict=True):
        path = bounded_e_path([-d for d in column], lo=-bound, hi=bound)
        won += [n for n, e in enumerate(path, 1) if e >= limit and n >= plan.min_units][:1]
    return min(won, default=None)


def _sample_passes(stream: Stream, plan: TrialPlan, rng: np.random.Generator) -> bool:
    """Whether six values against six, a unit each, are kept."""
    units = tuple(_unit(n, stream.draw(rng, 1)) for n in range(SAMPLE))
    ruling = rule_on(Trial(plan=plan, began_us=0, units=units))
    return ruling.verdict == "IMPROVED"


def _unit(index: int, drawn: tuple[float, float]) -> Unit:
    return Unit(index=index, blocks=(), d={LOG_TTFT: drawn[0], GUARD: drawn[1]}, judged=True)
