"""Plans, rows, units and trials for the judge's tests, with everything unimportant filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controller.trials import Block, GuardPlan, IntentPlan, Trial, TrialPlan, Unit
from policies.settings import Setting
from signals.events import MICROS, StepMoments
from signals.features.model import RequestRow, SecondRow

BEGAN_US = 1_700_000_000 * MICROS

PLAN = TrialPlan(
    id="tri_1",
    policy_id="pol_1",
    target="chat",
    knob="active_cap",
    hypothesis="active_cap 8 → 16 raises U",
    scale=1.0,
    guards=(GuardPlan(metric="attainment:live", margin=0.05, scale=0.5),),
    alpha=0.01,
    guard_alpha=0.05,
    min_units=7,
    max_units=20,
    block_s=30.0,
    washout_s=6.0,
    cycle_s=None,
    min_requests=1,
    seed=7,
    maximize="batch",
    reference_tokens_per_s=400.0,
    intents=(
        IntentPlan(name="live", target_attainment=0.9, deadline_s=4.0, ttft_slo_s=1.0),
        IntentPlan(name="batch", target_attainment=0.8, deadline_s=5.0, ttft_slo_s=None),
    ),
    max_error_rate=0.05,
    min_errors=20,
    baseline=Setting(value=8),
    candidate=Setting(value=16),
)


def plan(**changes: Any) -> TrialPlan:
    return msgspec.structs.replace(PLAN, **changes)


def block(**changes: Any) -> Block:
    return msgspec.structs.replace(Block(index=4, arm="baseline", began_us=BEGAN_US), **changes)


def at_us(seconds: float) -> int:
    """Seconds after the block began, as event time."""
    return BEGAN_US + round(seconds * MICROS)


def request(
    arrived_s: float,
    *,
    intent: str = "live",
    took_s: float | None = 1.0,
    ttft_s: float | None = 0.5,
    good: bool | None = True,
    **changes: Any,
) -> RequestRow:
    """A request that arrived ``arrived_s`` after the block began and took ``took_s``."""
    arrival_us = at_us(arrived_s)
    row = RequestRow(
        request_id=f"chat.{arrival_us}",
        target="chat",
        replica="chat-0",
        incarnation="i1",
        version=1,
        digest="d",
        policies=(),
        trial=PLAN.id,
        block=4,
        arm="baseline",
        intent=intent,
        class_="interactive",
        arrival_us=arrival_us,
        deadline_us=arrival_us + 4 * MICROS,
        finished_us=None if took_s is None else arrival_us + round(took_s * MICROS),
        status=None if took_s is None else "ok",
        prompt_tokens=10,
        output_tokens=8,
        max_tokens=8,
        queue_us=0,
        ttft_us=None if ttft_s is None else round(ttft_s * MICROS),
        tpot_us=20_000,
        good=good,
        preemptions=0,
        error=None,
        external_id=None,
        session_id=None,
    )
    return msgspec.structs.replace(row, **changes)


def second(
    ended_s: float, *, tokens: Mapping[str, int], waiting: Mapping[str, int], lasted_s: float = 1.0
) -> SecondRow:
    return SecondRow(
        target="chat",
        replica="chat-0",
        incarnation="i1",
        from_us=at_us(ended_s - lasted_s),
        to_us=at_us(ended_s),
        digest="d",
        trial=PLAN.id,
        block=4,
        arm="baseline",
        output_tokens=dict(tokens),
        arrivals={},
        offered_tokens={},
        waiting=dict(waiting),
        steps=StepMoments(),
        knobs={},
    )


def unit(index: int, d: Mapping[str, float], **changes: Any) -> Unit:
    closed = Unit(
        index=index,
        blocks=(
            Block(index=2 * index, arm="baseline", began_us=BEGAN_US),
            Block(index=2 * index + 1, arm="candidate", began_us=BEGAN_US),
        ),
        d=dict(d),
        judged=True,
    )
    return msgspec.structs.replace(closed, **changes)


def trial(ds: Sequence[float], guard_ds: Sequence[float] | None = None, **changes: Any) -> Trial:
    """A trial whose units showed these differences in U and in the guard's metric."""
    guards = [0.0] * len(ds) if guard_ds is None else guard_ds
    units = tuple(
        unit(index, {"U": d, "attainment:live": g})
        for index, (d, g) in enumerate(zip(ds, guards, strict=True))
    )
    return msgspec.structs.replace(Trial(plan=PLAN, units=units, began_us=BEGAN_US), **changes)
