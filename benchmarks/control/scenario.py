"""What a scenario is: an engine, a load, what was declared, and when its lives are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from msgspec import Struct

from controller.config.guardrails import GuardrailSettings
from controller.config.sections import ServeSettings, TrialSettings
from controller.config.targets import TargetSettings
from controller.rules.firing import Rules
from controller.state import Declared
from engine.simulated.faults import Fault
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Arrivals
from engine.simulated.spec import ReplicaSpec
from policies.knobs import KnobSpec
from signals.events import MICROS
from signals.settings import Slo

REPLICA = "r0"
ADAPTS_S = 1.25 * 3600.0
"""A trial's 7 to 60 units take 20 minutes to two hours; lives are scored from here on."""


class Scenario(Struct, frozen=True, kw_only=True):
    """One of them.

    ``knob`` is what every contender moves; the loop may move all that ``target`` declares ``auto``.
    ``reference`` tokens per second of the maximised intent count as 1 in U. ``moments``: when the
    world changes, s; an oracle may change its mind then, and what follows is scored once
    ``adapts_s`` have passed again. ``declares``: what a person declares anew, by when.
    ``stationary``: nothing changes for longer than a trial takes. ``nothing_to_gain``: no setting
    is better than another, so nothing may be kept. ``guarded``: there are better settings by U that
    some guard forbids: they are no rivals. ``business``: a weight in U as lives are scored, which
    the loop is told nothing of: whose answer was cut short by the knob does not come back.
    """

    name: str
    words: str
    target: TargetSettings
    replica: ReplicaSpec
    arrivals: Callable[[np.random.Generator], Arrivals]
    reference: float
    life_s: float
    knob: str = "active_cap"
    adapts_s: float = ADAPTS_S
    moments: tuple[float, ...] = ()
    scored_from: tuple[float, ...] | None = None
    declares: tuple[tuple[float, TargetSettings], ...] = ()
    faults: tuple[Fault, ...] = ()
    stationary: bool = False
    nothing_to_gain: bool = False
    guarded: bool = False
    business: float = 0.0

    def fleet(self, seed: int) -> Fleet:
        """One engine and its load, new. The load depends on the seed alone."""
        arrivals = self.arrivals(np.random.default_rng(seed))
        return Fleet(
            {REPLICA: self.replica},
            arrivals,
            slos=slos(self.target),
            seed=seed,
            faults=self.faults,
        )

    def target_at(self, at_s: float) -> TargetSettings:
        """What is declared then."""
        found = self.target
        for from_s, declared in self.declares:
            if at_s >= from_s:
                found = declared
        return found

    @property
    def spec(self) -> KnobSpec:
        """The knob's, on this engine."""
        return next(spec for spec in self.replica.knobs() if spec.name == self.knob)

    @property
    def ladder(self) -> tuple[int, ...]:
        """The values that the knob may have."""
        return self.target.knobs.of(self.knob).values(self.spec)

    @property
    def segments(self) -> tuple[tuple[float, float], ...]:
        """Stretches of the life without a change, s."""
        edges = (0.0, *self.moments, self.life_s)
        return tuple(pairwise(edges))

    @property
    def scored(self) -> tuple[tuple[float, float], ...]:
        """Stretches that are scored, s: after the loop has had its time to adapt."""
        starts = self.scored_from
        if starts is None:
            starts = tuple(from_s + self.adapts_s for from_s, _ in self.segments)
        return tuple(
            (at_s, to_s) for at_s, (_, to_s) in zip(starts, self.segments, strict=True)
            if at_s < to_s
        )  # fmt: skip


def slos(target: TargetSettings) -> Mapping[str, Slo]:
    """Of every intent."""
    return {name: intent.slo for name, intent in target.intents.items()}


def declared(target: TargetSettings) -> Declared:
    """As a person would declare it: the target, and everything else as it comes."""
    return Declared(
        name="chat",
        target=target,
        rules=Rules(),
        trial=TrialSettings(),
        guardrails=GuardrailSettings(),
        serve=ServeSettings(),
    )


def minutes(seconds: float) -> int:
    """Whole minutes."""
    return round(seconds / 60)


def micros(seconds: float) -> int:
    """Simulated time."""
    return round(seconds * MICROS)
