"""What an arm showed, by the product's own judge, and how arms differ over cycles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from benchmarks.control_live.load import CHAT_TOKENS
from controller.judge.effects import t_interval
from controller.judge.values import block_values
from controller.trials import Block, IntentPlan, TrialPlan
from policies.settings import Setting
from signals.errors import Unavailable
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow
from signals.settings import Slo

CHATS_SLO = Slo(ttft_ms=1000, tpot_ms=50, attainment=0.97)
JOBS_SLO = Slo(e2e_ms=60_000, attainment=0.9)
BLOCK = "bench"
RIVALS = ("static small", "static large", "rule")


class Shown(Struct, frozen=True, kw_only=True):
    """One arm in one cycle. ``acts``: what the emergency rule did, in words."""

    arm: str
    u: float
    batch_tokens_per_s: float
    chat_attainment: float
    acts: list[str] = []


class Cycle(Struct, frozen=True, kw_only=True):
    """Every arm once, under the same chats. ``load``: the machine's load average at its end."""

    index: int
    seed: int
    arm_s: float
    reference_tokens_per_s: float
    shown: list[Shown]
    load: list[float]

    def of(self, arm: str) -> Shown:
        """What an arm showed."""
        return next(one for one in self.shown if one.arm == arm)


class Paired(Struct, frozen=True, kw_only=True):
    """A difference over cycles, with Student's 95 % interval; none from a single cycle."""

    mean: float
    low: float | None
    high: float | None

    def words(self) -> str:
        """``+0.120 (+0.080 to +0.160)``."""
        if self.low is None or self.high is None:
            return f"{self.mean:+.3f} (one cycle: no interval)"
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def score(
    arm: str,
    requests: Sequence[RequestRow],
    seconds: Sequence[SecondRow],
    *,
    began_us: int,
    washout_s: float,
    arm_s: float,
    reference: float,
    acts: Sequence[str] = (),
) -> Shown:
    """Figures of the ``arm_s`` after the washout. Raises ``Unavailable`` when one can't be had."""
    block = Block(index=0, arm="baseline", began_us=began_us)
    rows = [msgspec.structs.replace(row, trial=BLOCK, block=0) for row in requests]
    ticks = [msgspec.structs.replace(tick, trial=BLOCK, block=0) for tick in seconds]
    found = block_values(_plan(washout_s, arm_s, reference), block, rows, ticks)
    if isinstance(found, str) or "U" not in found.values:
        raise Unavailable(f"{arm} has no figures: {found if isinstance(found, str) else 'no U'}")
    return Shown(
        arm=arm,
        u=found.values["U"],
        batch_tokens_per_s=found.values["tokens_per_s:batch"],
        chat_attainment=found.values["attainment:live"],
        acts=list(acts),
    )


def rate(seconds: Sequence[SecondRow]) -> float:
    """Batch tokens per second of the seconds in which jobs waited. Raises ``Unavailable``."""
    busy = [tick for tick in seconds if tick.waiting.get("batch", 0) > 0]
    length_us = sum(tick.to_us - tick.from_us for tick in busy)
    if length_us == 0:
        raise Unavailable("no job waited while the reference was measured")
    return sum(tick.output_tokens.get("batch", 0) for tick in busy) * MICROS / length_us


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """The mean of first − second, cycle by cycle.

    >>> paired([0.9, 0.8, 0.9], [0.7, 0.7, 0.7]).words()
    '+0.167 (+0.023 to +0.310)'
    """
    ds = [a - b for a, b in zip(first, second, strict=True)]
    low, high = t_interval(ds) if len(ds) > 1 else (None, None)
    return Paired(mean=sum(ds) / len(ds), low=low, high=high)


def by_arm(cycles: Sequence[Cycle]) -> dict[str, list[Shown]]:
    """Each arm's figures, a cycle each."""
    every = sorted((one for cycle in cycles for one in cycle.shown), key=lambda one: one.arm)
    return {arm: list(found) for arm, found in groupby(every, key=lambda one: one.arm)}


def _plan(washout_s: float, arm_s: float, reference: float) -> TrialPlan:
    """A block of the washout and the whole arm; what only a trial needs is left as it comes."""
    return TrialPlan(
        id=BLOCK,
        policy_id="none",
        target="chat",
        knob="active_cap",
        hypothesis="none: nothing is judged here",
        scale=1.0,
        guards=(),
        alpha=0.01,
        guard_alpha=0.05,
        min_units=7,
        max_units=60,
        block_s=washout_s + arm_s,
        washout_s=washout_s,
        cycle_s=None,
        min_requests=1,
        seed=0,
        maximize="batch",
        reference_tokens_per_s=reference,
        intents=(_intent("live", CHATS_SLO), _intent("batch", JOBS_SLO)),
        max_error_rate=1.0,
        min_errors=1,
        baseline=Setting(value=0),
        candidate=Setting(value=0),
    )


def _intent(name: str, slo: Slo) -> IntentPlan:
    deadline_us = slo.deadline_us(CHAT_TOKENS[1]) or 0
    ttft_s = None if slo.ttft_ms is None else slo.ttft_ms / 1000
    return IntentPlan(
        name=name,
        target_attainment=slo.attainment,
        deadline_s=deadline_us / MICROS,
        ttft_slo_s=ttft_s,
    )
