"""What is to be lived, and what became of it. Each can have a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from benchmarks.control.scenario import Scenario, minutes
from benchmarks.control.scoring import Minute


class Errand(Struct, frozen=True, kw_only=True):
    """One life. ``slots``: of the oracle, which contender's setting from which second on.

    ``life_s``: cut short, for a look; None: as long as the scenario is.
    """

    scenario: str
    contender: str
    seed: int
    slots: tuple[tuple[float, str], ...] = ()
    life_s: float | None = None


class Change(Struct, frozen=True, kw_only=True):
    """A policy of the loop: what, when it was kept (None: never), and how it ended."""

    words: str
    origin: str
    state: str
    began_s: float
    kept_s: float | None = None
    verdict: str | None = None
    cause: str | None = None


class Life(Struct, frozen=True, kw_only=True):
    """An errand done. ``deaths``: of memory exhausted. ``cpu_s``: what living it took."""

    plan: Errand
    minutes: tuple[Minute, ...]
    changes: tuple[Change, ...] = ()
    deaths: int = 0
    cpu_s: float = 0.0
    commit: str = ""

    def u(self, stretches: Sequence[tuple[float, float]]) -> float:
        """Mean U of the minutes that lie within some stretches, s."""
        values = [one.u for one in self.within(stretches)]
        return float(np.mean(values)) if values else float("nan")

    def within(self, stretches: Sequence[tuple[float, float]]) -> list[Minute]:
        """The minutes that lie within some stretches."""
        return [
            one
            for from_s, to_s in stretches
            for one in self.minutes[-(-int(from_s) // 60) : minutes(to_s)]
        ]

    def attainment(self, intent: str, stretches: Sequence[tuple[float, float]]) -> float:
        """The share of good ones among an intent's decided requests; 1 without any."""
        counts = [one.counts.get(intent, (0, 0)) for one in self.within(stretches)]
        judged = sum(count for count, _ in counts)
        return sum(good for _, good in counts) / judged if judged else 1.0

    def kept(self, from_s: float = 0.0) -> list[Change]:
        """What the loop kept, from some second on."""
        return [one for one in self.changes if one.kept_s is not None and one.kept_s >= from_s]


def whole(scenario: Scenario) -> tuple[tuple[float, float], ...]:
    """All of a life."""
    return ((0.0, scenario.life_s),)
