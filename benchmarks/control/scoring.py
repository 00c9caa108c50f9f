"""U of every minute of a life, as the product defines it::

    U = ½·min(1, tokens per second of the maximised intent / reference)
      + ½·mean over intents of min(1, attainment / target)

The rate counts only while somebody of that intent waits; a minute without backlog has all it asked
for, so its share is 1. An intent without decided arrivals in a minute takes no part in it. Minutes
are scored half an hour later, when nearly all that arrived in them is decided, by the service
levels that were declared at the time. Where a scenario has a business side, it takes its weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from benchmarks.control.scenario import Scenario
from controller.config.targets import TargetSettings
from engine.simulated.fleet import Fleet
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow

MINUTE_S = 60
MINUTE_US = MINUTE_S * MICROS
LAG_S = 1800
KEPT_S = 5400
"""A fleet's records are kept as long after that."""


class Minute(Struct, frozen=True, kw_only=True):
    """One minute. ``acted``: something else than at boot was in force in it. ``counts``: per
    intent, how many of its arrivals are decided, and good. ``at``: the knob's mean value."""

    u: float
    acted: bool
    at: float
    counts: dict[str, tuple[int, int]]


class Scorer:
    """Scores a life as it goes on, before its records are forgotten."""

    def __init__(self, scenario: Scenario) -> None:
        self.minutes: list[Minute] = []
        self._scenario = scenario
        self._reference = scenario.reference
        self._boot: str | None = None

    def follow(self, fleet: Fleet) -> None:
        """Score what is old enough; the rest too, once life is over."""
        ends_s = self._scenario.life_s
        now_s = fleet.now_us / MICROS
        until_s = ends_s if now_s >= ends_s else now_s - LAG_S
        while (len(self.minutes) + 1) * MINUTE_S <= until_s:
            self.minutes.append(self._score(fleet, len(self.minutes) * MINUTE_US))

    def _score(self, fleet: Fleet, from_us: int) -> Minute:
        requests = fleet.requests(from_us - 1, from_us + MINUTE_US - 1)
        records = fleet.records(from_us, from_us + MINUTE_US)
        if self._boot is None and records:
            self._boot = records[0].stamp.digest
        target = self._scenario.target_at(from_us / MICROS)
        values = [record.knobs[self._scenario.knob] for record in records]
        seconds = fleet.seconds(from_us, from_us + MINUTE_US)
        weight, u = self._scenario.business, utility(target, requests, seconds, self._reference)
        if weight:
            u = (1 - weight) * u + weight * (1 - cut_short(requests, set(values)))
        return Minute(
            u=round(u, 4),
            acted=any(record.stamp.digest != self._boot for record in records),
            at=round(float(np.mean(values or [0])), 1),
            counts={name: decided(requests, name) for name in target.intents},
        )


def utility(
    target: TargetSettings,
    requests: Sequence[RequestRow],
    seconds: Sequence[SecondRow],
    reference: float,
) -> float:
    """U of a stretch. ``reference``: tokens per second that count as 1."""
    met = [share for name in target.intents if (share := _met(target, requests, name)) is not None]
    return 0.5 * _rate(target, seconds, reference) + 0.5 * float(np.mean(met or [1.0]))


def cut_short(requests: Sequence[RequestRow], bounds: set[int]) -> float:
    """The share of answers that are exactly as long as one of the bounds in force allowed."""
    ended = [row.output_tokens for row in requests if row.status == "ok"]
    return sum(tokens in bounds for tokens in ended) / len(ended) if ended else 0.0


def decided(requests: Sequence[RequestRow], intent: str) -> tuple[int, int]:
    """How many of an intent's requests are decided, and how many of them are good."""
    judged = [row.good for row in requests if row.intent == intent and row.good is not None]
    return len(judged), sum(judged)


def _met(target: TargetSettings, requests: Sequence[RequestRow], intent: str) -> float | None:
    judged, good = decided(requests, intent)
    if not judged:
        return None
    return min(1.0, good / judged / target.intents[intent].slo.attainment)


def _rate(target: TargetSettings, seconds: Sequence[SecondRow], reference: float) -> float:
    busy = [one for one in seconds if one.waiting.get(target.maximized, 0) > 0]
    length_us = sum(one.to_us - one.from_us for one in busy)
    if length_us == 0:
        return 1.0
    tokens = sum(one.output_tokens.get(target.maximized, 0) for one in busy)
    return min(1.0, tokens * MICROS / length_us / reference)
