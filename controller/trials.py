"""What a trial is: a plan frozen before it starts, and units of two randomised blocks (switchback).

::

    unit 0            unit 1            unit 2                 block = washout w | counted | H
    ┌─────┬─────┐     ┌─────┬─────┐     ┌─────┬─────┐          arrivals count in (w, block − H],
    │  B  │  C  │     │  C  │  B  │     │  C  │  B  │   …      token rates in (w, block]
    └─────┴─────┘     └─────┴─────┘     └─────┴─────┘
       coin order, from the plan's seed and the unit's index alone

The unit is the randomised block, never the request: requests of one block share a queue and are
not independent. Everything the verdict depends on is in ``TrialPlan``; it is written to the audit
before the first block.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.policy import Effect, Verdict
from policies.runtime_config import Arm
from policies.settings import Setting

PRIMARY = "U"


class GuardPlan(Struct, frozen=True, kw_only=True):
    """A guard metric, e.g. ``attainment:live``, its non-inferiority margin, its scale."""

    metric: str
    margin: float
    scale: float


class IntentPlan(Struct, frozen=True, kw_only=True):
    """What U and the guards need to know of one intent. ``deadline_s`` is the metric's own H."""

    name: str
    target_attainment: float
    deadline_s: float
    ttft_slo_s: float | None


class TrialPlan(Struct, frozen=True, kw_only=True):
    """FROZEN before start; the audit holds these very figures.

    ``scale`` is s of the primary metric's e-process; ``reference_tokens_per_s`` divides the token
    rate of ``maximize`` (an intent) inside U; ``min_requests`` a block needs to be counted;
    ``max_error_rate`` with ≥ ``min_errors`` errors trips; so do more than ``trip_ratio`` times the
    baseline's misses and ``trip_misses`` more, but ``max_trips`` of those only end the trial
    undecided. Times in seconds.
    """

    id: str
    policy_id: str
    target: str
    knob: str
    scope: str = TARGET_SCOPE
    hypothesis: str
    primary: str = PRIMARY
    scale: float
    guards: tuple[GuardPlan, ...]
    alpha: float
    guard_alpha: float
    min_units: int
    max_units: int
    block_s: float
    washout_s: float
    cycle_s: float | None
    min_requests: int
    seed: int
    maximize: str
    reference_tokens_per_s: float
    intents: tuple[IntentPlan, ...]
    max_error_rate: float
    min_errors: int
    trip_ratio: float = 2.0
    trip_misses: int = 30
    max_trips: int = 3
    baseline: Setting
    candidate: Setting


PausedBy = Literal["person", "hold", "emergency", "override", "change"]


class Block(Struct, frozen=True, kw_only=True):
    """One block. ``began_us`` is the engine's own time of application, None until read back.

    ``opened_us``: when the controller first wished for it, in the controller's time.

    ``void`` says why it can't be counted (incomplete telemetry, cut by an emergency or a restart);
    never anything that depends on the outcome.
    """

    index: int
    arm: Arm
    opened_us: int = 0
    began_us: int | None = None
    ended_us: int | None = None
    cut: bool = False
    void: str | None = None


class BlockValues(Struct, frozen=True, kw_only=True):
    """What a block showed: metric -> value; a metric without data is absent.

    ``requests`` arrivals were counted, ``errors`` of them ended in one. ``halves``: the same
    metrics over the first and the second half of the counted window, for the carry-over check.
    """

    values: dict[str, float]
    requests: int
    errors: int
    halves: tuple[dict[str, float], dict[str, float]] = ({}, {})


class Unit(Struct, frozen=True, kw_only=True):
    """Two blocks and, once both are closed, d = candidate − baseline for each metric.

    ``judged``: both blocks are closed and ``d`` is final; ``void``: why it can't be counted.
    ``halves``: d over the first and the second half of the counted windows.
    """

    index: int
    blocks: tuple[Block, ...]
    d: dict[str, float] = {}
    halves: tuple[dict[str, float], dict[str, float]] = ({}, {})
    values: dict[str, dict[str, float]] = {}
    tripped: bool = False
    judged: bool = False
    void: str | None = None


class Ruling(Struct, frozen=True, kw_only=True):
    """Where the judge stands. ``verdict`` None: go on. ``e`` by test name, e.g. ``U>0``."""

    verdict: Verdict | None
    cause: str | None
    words: str
    units: int
    e: dict[str, float]
    effect: Effect | None


class Trial(Struct, frozen=True, kw_only=True):
    """A running or finished trial. ``rev`` as in policies.

    ``paused_by``: whose pause it is, for only he ends it. ``doubled_from``: the first unit with
    double block and washout (see ``judge.carry_over``).
    """

    plan: TrialPlan
    state: Literal["running", "paused", "done"] = "running"
    units: tuple[Unit, ...] = ()
    trips: int = 0
    ruling: Ruling | None = None
    began_us: int
    ended_us: int | None = None
    paused_us: int | None = None
    paused_by: PausedBy | None = None
    doubled_from: int | None = None
    rev: int = 0


def arms(seed: int, unit: int) -> tuple[Arm, Arm]:
    """The coin order of one unit: a fair coin that anybody can toss again from the audit.

    >>> sorted(arms(7, 0))
    ['baseline', 'candidate']
    """
    heads = hashlib.sha256(f"{seed}:{unit}".encode()).digest()[0] & 1
    return ("candidate", "baseline") if heads else ("baseline", "candidate")
