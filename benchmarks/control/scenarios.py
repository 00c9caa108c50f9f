"""The loads that the loop has to do well on, each from a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from controller.config.guardrails import GuardrailSettings
from controller.config.sections import ServeSettings, TrialSettings
from controller.config.targets import TargetSettings
from controller.rules.firing import Rules
from controller.state import Declared
from engine.simulated.arrivals.kinds import BATCH, LIVE, Kind
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged
from engine.simulated.arrivals.waves import phases
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Arrivals
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes

LADDER = (2, 4, 8, 16, 32, 64)
TOP = LADDER[-1]
STEEP = StepTimes(base_us=25_000, per_decode_us=500, per_prefill_us=50, noise_sd=0.05)
"""An engine on which batching pays: 57 ms for 64 sequences, 33 ms for 16."""
FLAT = StepTimes(base_us=20_000, per_decode_us=0, per_prefill_us=350, noise_sd=0.05)
"""An engine whose steps take the same whatever is in them; with its memory never short, its cap
binds nowhere below what is offered, and no knob does anything."""

SHORT = Uniform(prompt_tokens=(32, 96), output_tokens=(16, 48))
LONG = Uniform(prompt_tokens=(32, 64), output_tokens=(200, 300))
CODE = Kind("code", "interactive")
CHATS = (Load(kind=LIVE, per_s=1.0, lengths=SHORT), Load(kind=CODE, per_s=0.5, lengths=SHORT))
JOBS = Load(kind=BATCH, per_s=5.0, lengths=LONG, load_sd=0.1)
"""More than any setting can do: jobs always wait."""
FEW_JOBS = Load(kind=BATCH, per_s=0.1, lengths=LONG)


class Scenario(Struct, frozen=True, kw_only=True):
    """One of them. ``life_s`` in all, of which the first ``adapts_s`` are the loop's to learn in.

    ``nothing_to_gain``: no setting is better than another, so nothing may be kept.
    """

    name: str
    words: str
    step_times: StepTimes
    arrivals: Callable[[np.random.Generator], Arrivals]
    life_s: float = 2 * 3600.0
    adapts_s: float = 1.25 * 3600.0
    nothing_to_gain: bool = False

    def fleet(self, seed: int) -> Fleet:
        """One engine and its load, new."""
        slos = {name: intent.slo for name, intent in TARGET.intents.items()}
        spec = ReplicaSpec(step_times=self.step_times, capacity_active=TOP, capacity_budget=256)
        arrivals = self.arrivals(np.random.default_rng(seed))
        return Fleet({"r0": spec}, arrivals, slos=slos, seed=seed)


def batch_beside_interactive(rng: np.random.Generator) -> Arrivals:
    """Chats in phases of 80 s, and jobs all the time."""
    return _beside(JOBS, rng)


def nothing_binds(rng: np.random.Generator) -> Arrivals:
    """The same chats, and so few jobs that no cap of the ladder's upper half is ever reached."""
    return _beside(FEW_JOBS, rng)


def _beside(jobs: Load, rng: np.random.Generator) -> Arrivals:
    *chats, last = rng.spawn(len(CHATS) + 1)
    in_phases = (
        phases(load, one, on_s=80.0, off_s=80.0) for load, one in zip(CHATS, chats, strict=True)
    )
    return merged(*in_phases, poisson(jobs, last))


INTERACTIVE = {"class": "interactive", "slo": {"ttft_ms": 2000, "tpot_ms": 38, "attainment": 0.97}}
TARGET = TargetSettings.model_validate(
    {
        "maximize": "batch.tokens_per_s",
        "intents": {
            "live": INTERACTIVE,
            "code": INTERACTIVE,
            "batch": {"class": "batch", "slo": {"tpot_ms": 200, "attainment": 0.9}},
        },
        "knobs": {"active_cap": {"mode": "auto", "ladder": list(LADDER)}},
    }
)

SCENARIOS = {
    one.name: one
    for one in (
        Scenario(
            name="c",
            words="batch beside interactive, phases of 80 s",
            step_times=STEEP,
            arrivals=batch_beside_interactive,
        ),
        Scenario(
            name="j",
            words="every knob null",
            step_times=FLAT,
            arrivals=nothing_binds,
            nothing_to_gain=True,
        ),
    )
}


def declared() -> Declared:
    """What a person would declare: mode ``auto`` for the cap, everything else as it comes."""
    return Declared(
        name="chat",
        target=TARGET,
        rules=Rules(),
        trial=TrialSettings(),
        guardrails=GuardrailSettings(),
        serve=ServeSettings(),
    )
