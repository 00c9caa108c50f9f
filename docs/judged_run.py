"""Two trials on a simulated engine, judged by the product's own judge: what the figures show.

One engine, and a pile of jobs that lasts. In the first trial chats come in phases of 80 s, and a
law is tried against a cap. In the second they come all the time, at a rate that wanders, and the
candidate is the baseline itself: every difference is the load's. Seeded: the same run, to the byte,
wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from controller.judge.values import block_values, unit_differences
from controller.judge.verdict import rule_on
from controller.trials import (
    Block,
    BlockValues,
    GuardPlan,
    IntentPlan,
    Ruling,
    Trial,
    TrialPlan,
    Unit,
    arms,
)
from engine.simulated.arrivals.flood import flood
from engine.simulated.arrivals.kinds import BATCH, LIVE
from engine.simulated.arrivals.lengths import Uniform
from engine.simulated.arrivals.poisson import Load, poisson
from engine.simulated.arrivals.shaping import merged
from engine.simulated.arrivals.waves import phases
from engine.simulated.fleet import Fleet
from engine.simulated.offered import Arrivals
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.laws import Law, LawStep
from policies.runtime_config import Arm, Patch, SettingChange
from policies.settings import Setting
from signals.events import MICROS
from signals.features.model import SecondRow
from signals.settings import Slo

SEED = 4
LADDER = (2, 4, 8, 16, 32, 64)
TOP = LADDER[-1]
CAP = 16
LIMIT_MS = 40
PHASE_S = 80.0
WASHOUT_S = 15.0
STEPS = StepTimes(base_us=25_000, per_decode_us=500, per_prefill_us=50, noise_sd=0.05)
CHATS = Load(
    kind=LIVE,
    per_s=2.0,
    load_sd=0.3,
    lengths=Uniform(prompt_tokens=(32, 96), output_tokens=(16, 48)),
)
JOBS = Load(
    kind=BATCH, per_s=0.0, lengths=Uniform(prompt_tokens=(32, 64), output_tokens=(150, 250))
)
PILE = 25_000
"""Jobs that are there from the beginning: more than either trial gets through."""
SLOS = {
    "live": Slo(ttft_ms=2000, tpot_ms=LIMIT_MS, attainment=0.95),
    "batch": Slo(tpot_ms=200, attainment=0.9),
}
LAW = Law(
    variable="arrivals",
    class_="interactive",
    window_s=2.0,
    default=TOP,
    steps=(LawStep(above=0.0, value=CAP),),
    min_dwell_s=1.0,
)
PLAN = TrialPlan(
    id="tri",
    policy_id="pol",
    target="chat",
    knob="active_cap",
    hypothesis="the law raises U",
    scale=1.0,
    guards=(GuardPlan(metric="attainment:live", margin=0.05, scale=0.5),),
    alpha=0.01,
    guard_alpha=0.05,
    min_units=7,
    max_units=60,
    block_s=WASHOUT_S + 2 * PHASE_S,
    washout_s=WASHOUT_S,
    cycle_s=2 * PHASE_S,
    min_requests=30,
    seed=SEED,
    maximize="batch",
    reference_tokens_per_s=TOP / 0.057,
    intents=(
        IntentPlan(name="live", target_attainment=0.95, deadline_s=4.0, ttft_slo_s=2.0),
        IntentPlan(name="batch", target_attainment=0.9, deadline_s=20.0, ttft_slo_s=None),
    ),
    max_error_rate=0.05,
    min_errors=20,
    baseline=Setting(value=CAP),
    candidate=Setting(law=LAW, shrink="preempt"),
)
"""Blocks of the law's trial: the washout and one whole cycle of the chats."""
NULL_PLAN = replace(
    PLAN,
    hypothesis="nothing",
    block_s=60.0,
    cycle_s=None,
    candidate=Setting(value=CAP),
)
"""Blocks of the default length."""


class Judged(Struct, frozen=True, kw_only=True):
    """A trial, unit by unit, with the ruling after each; and the engine's seconds meanwhile."""

    plan: TrialPlan
    units: tuple[Unit, ...]
    rulings: tuple[Ruling, ...]
    seconds: tuple[SecondRow, ...]

    def path(self, test: str) -> list[float]:
        """The e-value of a test after each unit, from 1 before the first."""
        return [1.0, *(ruling.e[test] for ruling in self.rulings)]


@cache
def with_an_effect() -> Judged:
    """The law against the cap, to the verdict."""
    return _judged(PLAN, in_phases=True)


@cache
def without_one() -> Judged:
    """The cap against itself, to the last unit."""
    return _judged(NULL_PLAN, in_phases=False)


def _judged(plan: TrialPlan, *, in_phases: bool) -> Judged:
    fleet = Fleet({"r0": _spec()}, _arrivals(in_phases), slos=SLOS, seed=SEED)
    _set(fleet, plan.baseline, 1)
    fleet.run(60 * MICROS)
    units: list[Unit] = []
    rulings: list[Ruling] = []
    while not rulings or rulings[-1].verdict is None:
        units.append(_unit(fleet, plan, len(units)))
        rulings.append(rule_on(Trial(plan=plan, units=tuple(units), began_us=0)))
    seconds = fleet.seconds(0, fleet.now_us)
    return Judged(plan=plan, units=tuple(units), rulings=tuple(rulings), seconds=tuple(seconds))


def _unit(fleet: Fleet, plan: TrialPlan, index: int) -> Unit:
    """Two blocks in the coin's order, and their difference."""
    shown: dict[Arm, BlockValues] = {}
    blocks: list[Block] = []
    for place, arm in enumerate(arms(plan.seed, index)):
        number = 2 * index + place
        setting = plan.candidate if arm == "candidate" else plan.baseline
        _set(fleet, setting, number + 2)
        blocks.append(Block(index=number, arm=arm, began_us=fleet.now_us))
        shown[arm] = _block(fleet, plan, blocks[-1])
    base, candidate = shown["baseline"].values, shown["candidate"].values
    return Unit(
        index=index,
        blocks=tuple(blocks),
        d=unit_differences(base, candidate),
        values={"baseline": base, "candidate": candidate},
        judged=True,
    )


def _block(fleet: Fleet, plan: TrialPlan, block: Block) -> BlockValues:
    began_us = fleet.now_us
    ends_us = began_us + round(plan.block_s * MICROS)
    fleet.run(ends_us)
    stamp = {"trial": plan.id, "block": block.index, "arm": block.arm}
    rows = [replace(row, **stamp) for row in fleet.requests(began_us, ends_us)]
    ticks = [replace(tick, **stamp) for tick in fleet.seconds(began_us, ends_us)]
    found = block_values(plan, block, rows, ticks)
    assert not isinstance(found, str), found
    return found


def _set(fleet: Fleet, setting: Setting, number: int) -> None:
    replica = fleet.replica("r0")
    change = SettingChange(
        knob="active_cap", value=setting.value, law=setting.law, shrink=setting.shrink
    )
    expected = replica.view().expected
    replica.patch(Patch(change_id=f"docs.{number}", epoch=1, expected=expected, settings=(change,)))


def _spec() -> ReplicaSpec:
    return ReplicaSpec(step_times=STEPS, capacity_active=TOP, capacity_budget=256)


def _arrivals(in_phases: bool) -> Arrivals:
    rng, jobs = np.random.default_rng(SEED).spawn(2)
    chats = phases(CHATS, rng, on_s=PHASE_S, off_s=PHASE_S) if in_phases else poisson(CHATS, rng)
    return merged(chats, flood(JOBS, jobs, jobs=PILE))


def naive_alarms(judged: Judged, *, points: float) -> tuple[int, int]:
    """Units whose two blocks differ in chat attainment by more than so much, either way; all.

    With one setting in both blocks, each is what a before-and-after comparison would have told.
    """
    ds: Sequence[float] = [unit.d.get("attainment:live", 0.0) for unit in judged.units]
    return sum(abs(d) > points for d in ds), len(ds)
