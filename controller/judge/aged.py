"""What users did or a model scored by a fixed age: the arms' difference of an indicator.

The idea: feedback comes late, and to an old request more has come than to a new one. So every
exposure, a request, is looked at when it is exactly as old as every other one: only values whose
own time is within ``age_s`` of the request's arrival count, and a block is counted once the
youngest request in it is that old. What a request has not got by then is a zero or nothing, as its
metric says. Both arms meet the same rule, so that neither is ahead because it came first.

::

    block │ w │ arrivals that count │ H │                    ▼ the youngest is age_s old: counted
          └───┴──────┬──────────────┴───┘────────────────────┘
                     └─ a request: values until arrival + age_s ─┘

In a session split a session counts in the unit in which it came first, as everywhere
(``sessions``). Where several producers speak of one request, what each says by then is taken
together as its rates are (the last word, or the sum), and their mean is the request's value. Values
of a producer whose share is capped do not count: a verdict has no cap on what one of them can do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from controller.judge.sessions import session_of
from controller.judge.values import ARMS
from controller.trials import AgedPlan, Block, TrialPlan
from policies.knobs import TARGET_SCOPE
from policies.runtime_config import Arm
from signals.events import MICROS
from signals.features.model import Outcome, RequestRow


def aged_means(
    plan: TrialPlan,
    aged: AgedPlan,
    block: Block,
    requests: Sequence[RequestRow],
    outcomes: Iterable[Outcome],
    earlier: Set[str] = frozenset(),
) -> dict[Arm, float]:
    """The indicator's mean in each arm that has any value; higher is better (``AgedPlan.sign``).

    ``plan``: the one in force for this block. ``earlier``: sessions that came in an earlier block.
    A switchback's block has the one arm that ran.
    """
    said = _said(aged, outcomes)
    found: defaultdict[Arm, list[float]] = defaultdict(list)
    for row in _exposures(plan, block, requests, earlier):
        value = _value(aged, row, said.get(row.request_id, ()))
        if value is not None and row.arm is not None:
            found[row.arm].append(value)
    return {arm: aged.sign * math.fsum(of) / len(of) for arm, of in found.items()}


def aged_difference(means: Iterable[Mapping[Arm, float]]) -> float | None:
    """d = candidate − baseline over the blocks of one unit; None: an arm has no value."""
    both: dict[Arm, float] = {}
    for one in means:
        both |= one
    return both["candidate"] - both["baseline"] if len(both) == len(ARMS) else None


def _exposures(
    plan: TrialPlan, block: Block, requests: Sequence[RequestRow], earlier: Set[str]
) -> list[RequestRow]:
    """The requests of the policy's scope that arrived where arrivals count."""
    if block.began_us is None or block.void is not None:
        return []
    after_us = block.began_us + round(plan.washout_s * MICROS)
    ends_us = block.began_us + round(plan.block_s * MICROS)
    last_us = {one.name: ends_us - round(one.deadline_s * MICROS) for one in plan.intents}
    return [
        row
        for row in requests
        if (row.trial, row.block) == (plan.id, block.index)
        and plan.scope in (TARGET_SCOPE, row.intent)
        and after_us < row.arrival_us <= last_us.get(row.intent, 0)
        and session_of(row) not in earlier
    ]


def _said(aged: AgedPlan, outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """By request, what counts of this metric, by time."""
    found: defaultdict[str, list[Outcome]] = defaultdict(list)
    for one in sorted(outcomes, key=lambda each: (each.time_us, each.event_id)):
        if one.metric == aged.metric and one.producer not in aged.capped:
            found[one.request_id].append(one)
    return found


def _value(aged: AgedPlan, row: RequestRow, said: Sequence[Outcome]) -> float | None:
    """What a request shows at the age; None: it is not counted."""
    until_us = row.arrival_us + aged.age_s * MICROS
    by_producer: dict[str, float] = {}
    for one in said:
        if one.time_us <= until_us:
            before = by_producer.get(one.producer, 0.0) if aged.adds else 0.0
            by_producer[one.producer] = before + one.value
    if not by_producer:
        return 0.0 if aged.absent_zero else None
    held = [min(aged.high, max(aged.low, value)) for value in by_producer.values()]
    return math.fsum(held) / len(held)
