"""A flood of batch jobs at one moment, and a steady stream after it: a queue that stays full.

Real batch clients are closed loops: they send the next job when one is done, so that a faster
engine is offered more. As an engine's *load* that would be endogenous: what is tried would change
what arrives, and arms could no longer be compared by arrivals. A flood that outlasts the run, or
one with a steady stream above what the engine can do, keeps the backlog and stays exogenous.
"""

from __future__ import annotations

import numpy as np

from engine.simulated.arrivals.bounds import MOST_S, within
from engine.simulated.arrivals.kinds import BATCH
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import later, merged
from engine.simulated.offered import Arrivals, Offered

MOST_JOBS = 10_000_000


def flood(load: Load, rng: np.random.Generator, *, jobs: int, at_s: float = 0.0) -> Arrivals:
    """``jobs`` at one moment, and nothing else; of ``load`` only kind and lengths count."""
    within("jobs", jobs, 0, MOST_JOBS)
    within("at_s", at_s, 0.0, MOST_S)
    for prompt, output in load.lengths.draw(rng, jobs):
        yield Offered(
            arrival_s=at_s,
            intent=load.kind.intent,
            class_=load.kind.class_,
            prompt_tokens=prompt,
            output_tokens=output,
        )


def backlog(load: Load, rng: np.random.Generator, *, jobs: int, at_s: float = 0.0) -> Arrivals:
    """``jobs`` at one moment, and ``load`` from then on."""
    return merged(flood(load, rng, jobs=jobs, at_s=at_s), later(poisson(load, rng), at_s))


def batch(per_s: float, *, load_sd: float = 0.0) -> Load:
    """Batch jobs of the default lengths."""
    return Load(kind=BATCH, per_s=per_s, load_sd=load_sd)
