"""From what was seen to what is offered: each intent's load, and which values were measured.

Interactive requests are taken as they come while they come: their mean rate over the seconds in
which a law would hold its cap. Where work of the other classes always waits, it fills every slot
that they leave, and what it waits itself nobody can predict: of its limits only the time per token
counts. Where nothing waits, all arrivals share one queue.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, structs

from controller.plant.feasible import Offer
from controller.plant.laws import INTERACTIVE, interactive_arrivals, seconds_held
from controller.plant.queueing import Load
from controller.plant.residual import Measured
from controller.plant.step_curve import StepCurve
from controller.state import PlantInput, Traffic
from signals.events import MICROS, StepMoments
from signals.settings import IntentSettings, Slo

WAITS: Final = 0.5
"""Share of the seconds in which work waits, from which on it is taken to wait always."""
NEAR: Final = 0.1
"""A second counts for a ladder value when its mean batch is this near to it, as a share."""
RECENT_S: Final = 600
"""Long enough for whole phases of minutes, short enough to follow the day."""
SECONDS: Final = 10
"""Seconds at a value that make one measurement of it."""


class Offered(Struct, frozen=True, kw_only=True):
    """Offers by kind. ``share``: of seconds with interactive requests; ``own_tokens_per_s``: theirs
    while they are there; ``backlog``: work of the maximised intent waits.
    """

    interactive: tuple[Offer, ...]
    others: tuple[Offer, ...]
    share: float
    own_tokens_per_s: float
    backlog: bool

    @property
    def all(self) -> tuple[Offer, ...]:
        """Every offer."""
        return (*self.interactive, *self.others)


def offered(
    intents: Mapping[str, IntentSettings], plant: PlantInput, *, maximized: str, window_s: float
) -> Offered:
    """What is offered now. Intents of which no request has ended lately are left out."""
    known = {name: plant.traffic[name] for name in sorted(intents) if name in plant.traffic}
    per_s = rates(plant.arrivals)
    mine = [name for name in known if intents[name].class_ == INTERACTIVE]
    rest = [name for name in known if name not in mine]
    waiting = [name for name in rest if known[name].waiting_share >= WAITS]
    counts = interactive_arrivals(intents, plant)
    share = seconds_held(counts, window_s) / len(counts) if counts else 0.0
    there = {name: per_s.get(name, 0.0) / share if share else 0.0 for name in mine}
    queued = {name: per_s.get(name, 0.0) for name in rest if name not in waiting}
    others = tuple(
        _waiting(name, intents[name].slo, known[name], plant.prefill_per_decode)
        if name in waiting
        else Offer(name=name, slo=intents[name].slo, load=_queue({**queued}, known))
        for name in rest
    )
    beside = [known[name].output_tokens for name in waiting]
    load = _queue(there | queued, known)
    if beside:
        load = _beside(_queue(there, known), statistics.fmean(beside), plant.prefill_per_decode)
    return Offered(
        interactive=tuple(Offer(name=n, slo=intents[n].slo, load=load) for n in mine),
        others=others,
        share=share,
        own_tokens_per_s=sum(there[name] * known[name].output_tokens for name in mine),
        backlog=maximized in waiting,
    )


def measured(
    points: Iterable[StepMoments], curve: StepCurve, ladder: Sequence[int], *, now_us: int
) -> tuple[Measured, ...]:
    """The ladder values that the engine ran at lately, and how far the curve is off at each.

    The median over the seconds near a value: a stall in some of them says nothing of it.
    """
    seen: dict[int, list[float]] = {}
    for one in points:
        batch, step_us = one.b / one.n, one.t / one.n
        predicted_us = curve.step_us(batch, one.f / one.n)
        value = min(ladder, key=lambda at: abs(at - batch))
        if abs(value - batch) <= NEAR * value and step_us > 0 and predicted_us > 0:
            seen.setdefault(value, []).append(math.log(step_us / predicted_us))
    return tuple(
        Measured(value=value, log_ratio=round(statistics.median(found), 6), at_us=now_us)
        for value, found in sorted(seen.items())
        if len(found) >= SECONDS
    )


def recent(plant: PlantInput, *, now_us: int) -> PlantInput:
    """The same with the arrivals of the last ``RECENT_S`` alone: an older load is another load."""
    since_us = now_us - RECENT_S * MICROS
    return structs.replace(
        plant,
        arrivals=tuple(one for one in plant.arrivals if one[0] > since_us),
        offered=tuple(one for one in plant.offered if one[0] > since_us),
    )


def rates(counts: Sequence[tuple[int, Mapping[str, int]]]) -> dict[str, float]:
    """Per second, by intent, of (end of second µs, {intent: count}); replicas are added up."""
    if not counts:
        return {}
    ends_us = [at_us for at_us, _ in counts]
    span_s = (max(ends_us) - min(ends_us)) / 1e6 + 1.0
    totals: dict[str, int] = {}
    for _, seen in counts:
        for name, count in seen.items():
            totals[name] = totals.get(name, 0) + count
    return {name: total / span_s for name, total in sorted(totals.items())}


def _queue(per_s: Mapping[str, float], known: Mapping[str, Traffic]) -> Load:
    """All of these in one queue: rates add up, lengths are means over requests."""
    total = math.fsum(per_s.values())
    if total <= 0:
        return Load(arrivals_per_s=0.0, output_tokens=1.0)
    weights = {name: rate / total for name, rate in per_s.items()}
    output = math.fsum(weight * known[name].output_tokens for name, weight in weights.items())
    square = math.fsum(
        weight * (1 + known[name].output_cv2) * known[name].output_tokens ** 2
        for name, weight in weights.items()
    )
    return Load(
        arrivals_per_s=total,
        output_tokens=max(1.0, output),
        output_cv2=max(0.0, square / output**2 - 1) if output else 1.0,
        prompt_tokens=math.fsum(w * known[name].prompt_tokens for name, w in weights.items()),
    )


def _beside(load: Load, tokens: float, rho: float) -> Load:
    """The same beside work that always waits. Its steps are the mix's, so its prompts are too."""
    return Load(
        arrivals_per_s=load.arrivals_per_s,
        output_tokens=load.output_tokens,
        output_cv2=load.output_cv2,
        prompt_tokens=rho * load.output_tokens,
        backlog_tokens=max(1.0, tokens),
    )


def _waiting(name: str, slo: Slo, traffic: Traffic, rho: float) -> Offer:
    """An intent whose own work always waits."""
    tokens = max(1.0, traffic.output_tokens)
    return Offer(
        name=name,
        slo=Slo(tpot_ms=slo.tpot_ms, attainment=slo.attainment),
        load=Load(
            arrivals_per_s=0.0,
            output_tokens=tokens,
            prompt_tokens=rho * tokens,
            backlog_tokens=tokens,
        ),
    )
