"""What a trial is: a plan frozen before it starts, and units of randomised blocks.

::

    switchback: one engine, or all replicas as one        crossover: two halves of the replicas

    unit 0            unit 1            unit 2                      unit 0   unit 1   unit 2
    ┌─────┬─────┐     ┌─────┬─────┐     ┌─────┬─────┐     half 0   ┌──────┐ ┌──────┐ ┌──────┐
    │  B  │  C  │     │  C  │  B  │     │  C  │  B  │ …            │  B   │ │  C   │ │  C   │ …
    └─────┴─────┘     └─────┴─────┘     └─────┴─────┘     half 1   │  C   │ │  B   │ │  B   │
                                                                   └──────┘ └──────┘ └──────┘
    block = washout w | counted | H: arrivals count in (w, block − H], token rates in (w, block]

The coin is tossed from the plan's seed and the unit's index alone. A switchback's unit is two
adjacent blocks in the coin's order. A crossover's is one block, and the coin says which half has
the candidate: both arms meet the same minute's load, and a half whose replicas are slower is on
the candidate's side as often as on the baseline's, so that it moves no mean.

::

    session split: one setting of one intent, that counts for a request when it arrives

    unit 0     unit 1     unit 2
    ┌────────┐ ┌────────┐ ┌────────┐
    │ new B  │ │ new B  │ │ new B  │ …    each session has the arm that its hash says, for the whole
    │ new C  │ │ new C  │ │ new C  │       trial; it counts in the unit in which it came first
    └────────┘ └────────┘ └────────┘

In a session split the coins are the sessions' own. A session keeps its arm for the whole trial, so
it counts in one unit only: were it counted in every one it comes back in, a few heavy users on one
side would be the same luck again and again, and the units would not be independent. The arms share
the engine, so what it does as a whole (its token rate) is neither's, and is not in the difference.

The unit is the randomised block, never the request: requests of one block share a queue and are
not independent. Everything the verdict depends on is in ``TrialPlan``; it is written to the audit
before the first block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from policies.knobs import TARGET_SCOPE
from policies.policy import Effect, Verdict
from policies.runtime_config import Arm, SessionSplit, TrialStamp
from policies.settings import Setting

PRIMARY = "U"

Design = Literal["switchback", "crossover", "session_split"]
Split = tuple[tuple[str, ...], tuple[str, ...]]
"""Two halves of a target's replicas, by name; as many in the one as in the other."""


class GuardPlan(Struct, frozen=True, kw_only=True):
    """A guard metric, e.g. ``attainment:live``, its non-inferiority margin, its scale."""

    metric: str
    margin: float
    scale: float


class AgedPlan(Struct, frozen=True, kw_only=True):
    """A business or semantic metric, read at a fixed age, and how many exposures it takes.

    ``margin``: how much worse it may not be (a guard), or the difference that is to be found (the
    primary metric), in its own unit. ``low``, ``high``: its bounds; ``sign`` −1: lower is better,
    and every figure of it is turned round. ``absent_zero``: who has no value by then counts as 0.
    ``adds``: values of one request add up. ``capped``: producers that do not count.

    ``base``: its mean as it was known (None: not known, taken for the middle). ``needed``:
    exposures of each arm, ``units`` that bring so many, ``days`` that takes. ``shown``: so many fit
    into the trial, so that it must be shown to be no worse; else only harm is looked for.
    """

    metric: str
    margin: float
    age_s: int
    low: float
    high: float
    sign: int = 1
    absent_zero: bool = True
    adds: bool = False
    capped: tuple[str, ...] = ()
    base: float | None = None
    exposure: Literal["session", "request"] = "request"
    needed: int = 0
    per_day: float = 0.0
    days: float = 0.0
    units: int = 0
    shown: bool = True

    @property
    def scale(self) -> float:
        """s of its e-process: its bets are from a quarter to twice those
        that a difference of the margin calls for (``eprocess.EFFECT_GRID``)."""
        return 16.0 * self.margin


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
    undecided. Times in seconds. ``split``: a crossover's two halves; replicas in neither stay on
    the baseline and are not counted. ``share``: of the sessions of a split have the candidate.
    ``rarest_loss``: a loss in this share of the units is to be excluded before IMPROVED.

    ``aged``: metrics that a kept policy is confirmed by, once its exposures are old enough;
    ``aged_primary``: the primary metric where it is such a one. ``least_units``: counted before
    IMPROVED, so that as many are exposed as these need.

    ``alpha`` is of IMPROVED, and is less where little is left of the budget of trials;
    ``harm_alpha`` of HARMED, which must not take longer for that (None: as ``alpha``).
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
    harm_alpha: float | None = None
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
    rarest_loss: float | None = None
    baseline: Setting
    candidate: Setting
    aged: tuple[AgedPlan, ...] = ()
    aged_primary: AgedPlan | None = None
    least_units: int = 0
    design: Design = "switchback"
    split: Split = ((), ())
    share: float = 0.5

    @property
    def harm_limit(self) -> float:
        """What E of any of the G + 1 metrics must reach for HARMED."""
        alpha = self.alpha if self.harm_alpha is None else self.harm_alpha
        return (len(self.guards) + 1) / alpha

    @property
    def ripens_s(self) -> int:
        """How old the youngest exposure of a unit must be before it counts, in seconds."""
        return 0 if self.aged_primary is None else self.aged_primary.age_s

    @property
    def blocks_per_unit(self) -> int:
        """Two blocks one after the other, or one in which both arms run side by side."""
        return 2 if self.design == "switchback" else 1

    @property
    def sessions(self) -> SessionSplit:
        """Who has the candidate in a session split: known from the audit, to nobody before."""
        return SessionSplit(salt=_hash(f"{self.seed}:sessions").hex()[:32], share=self.share)

    @property
    def members(self) -> tuple[str, ...]:
        """The replicas of both halves of a crossover."""
        return (*self.split[0], *self.split[1])


PausedBy = Literal["person", "hold", "emergency", "override", "change"]


class Block(Struct, frozen=True, kw_only=True):
    """One block. ``began_us`` is the engine's own time of application, None until read back.

    ``arm``: in a crossover that of the first half; the second half has the other one, and the block
    begins when the last replica of both has applied its own. In a session split always the
    candidate, which some of the sessions have.

    ``opened_us``: when the controller first wished for it, in the controller's time; or when it
    looked again after it had been away.

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
    """Its blocks and, once all are closed, d = candidate − baseline for each metric.

    Two blocks in a switchback, one in a crossover. ``judged``: they are closed and ``d`` is final;
    ``void``: why it can't be counted. ``ripe`` False: judged, and its exposures are not yet old
    enough for the primary metric, so it does not count yet. ``halves``: d over the first and the
    second half of the counted windows. ``sessions``: how many came first in this unit, by arm, in a
    session split.
    """

    index: int
    blocks: tuple[Block, ...]
    sessions: dict[str, int] = {}
    d: dict[str, float] = {}
    halves: tuple[dict[str, float], dict[str, float]] = ({}, {})
    values: dict[str, dict[str, float]] = {}
    tripped: bool = False
    judged: bool = False
    ripe: bool = True
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


def other(arm: Arm) -> Arm:
    """The arm that it is compared with."""
    return "baseline" if arm == "candidate" else "candidate"


def arm_of(plan: TrialPlan, block: Block, replica: str | None) -> Arm | None:
    """A replica's arm in a block; None: it takes no part, and keeps the baseline.

    A switchback moves all of a target's replicas together; where sessions are split, the candidate
    is in force on each. ``replica`` None: one whose name is not known, which is in no half.
    """
    if plan.design != "crossover" or replica in plan.split[0]:
        return block.arm
    return other(block.arm) if replica in plan.split[1] else None


def stamp_of(trial: Trial, block: Block, replica: str | None) -> TrialStamp | None:
    """The trial that a replica shows in a block; None: it takes no part."""
    if trial.plan.design == "session_split":
        return TrialStamp(id=trial.plan.id, block=block.index, split=trial.plan.sessions)
    arm = arm_of(trial.plan, block, replica)
    return None if arm is None else TrialStamp(id=trial.plan.id, block=block.index, arm=arm)


def arms_in(plan: TrialPlan, block: Block) -> tuple[Arm, ...]:
    """The arms that run in a block: one, or both side by side; a crossover's as its halves are."""
    return (block.arm,) if plan.design == "switchback" else (block.arm, other(block.arm))


def order(plan: TrialPlan, unit: int) -> tuple[Arm, Arm]:
    """The arms of a unit as its blocks name them: by the coin, but where sessions have theirs."""
    return ("candidate", "baseline") if plan.design == "session_split" else arms(plan.seed, unit)


def split_of(seed: int, replicas: Iterable[str]) -> Split | None:
    """Two halves by chance, the same for the whole trial; None for fewer than two replicas.

    By the hashes of the seed and the names, so that anybody can split them again from the audit,
    and so that a half is not all those of one rack, whose names are alike. The last one of an odd
    number is in neither half.

    >>> split_of(7, ["r0", "r1", "r2"])
    (('r1',), ('r2',))
    """
    names = sorted(set(replicas), key=lambda name: (_hash(f"{seed}:split:{name}"), name))
    half = len(names) // 2
    return (tuple(names[:half]), tuple(names[half : 2 * half])) if half else None


def arms(seed: int, unit: int) -> tuple[Arm, Arm]:
    """The coin of one unit: a fair coin that anybody can toss again from the audit.

    The arms of a switchback's blocks in their order, or of a crossover's two halves.

    >>> sorted(arms(7, 0))
    ['baseline', 'candidate']
    """
    heads = _hash(f"{seed}:{unit}")[0] & 1
    return ("candidate", "baseline") if heads else ("baseline", "candidate")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
