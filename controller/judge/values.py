"""What one block showed, from request rows and seconds; and a unit's differences.

::

    began        began+w                      began+block−H    began+block
      │  washout   │   counted arrivals            │   H, to finish   │
      └────────────┴───────────────────────────────┴──────────────────┘
                   └── token rates: seconds ending in (began+w, began+block] ──┘

``attainment:<intent>``    good / arrived
``neg_log_ttft:<intent>``  mean of −ln(TTFT in seconds); unfinished counts as 60 s
``tokens_per_s:<intent>``  output tokens over time; of the maximised intent only while it had
                           backlog (somebody waiting at the second's end)
``U``                      ½·min(1, rate/reference)
                           + ½·mean over intents of min(1, attainment/target)
``U:…``                    the parts of U, already weighted: they sum to U

A request belongs to the block it *arrived* in, and counts as it stood at that block's end: nothing
is dropped because it was slow, failed or spanned, and reading later gives the same figures.
Cancelled by the client counts too, as not good unless it had already met everything: whether a
client leaves depends on how long it waited, so leaving such requests out would flatter a slow arm.

In a crossover's block both arms run at once, each on half of the replicas. An arm's requests are
pooled whichever replica had them, so that a replica weighs as much as the traffic it got; its token
rate is that of one replica: all its tokens over the seconds of its replicas together, so that the
reference, which is one engine's, holds for it too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from controller.trials import PRIMARY, Block, BlockValues, IntentPlan
from policies.runtime_config import Arm
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow

UNFINISHED_TTFT_US: Final = 60 * MICROS
SHORTEST_TTFT_US: Final = 100
"""A clock's grain, so that a logarithm exists."""

PART: Final = f"{PRIMARY}:"

ARMS: Final[tuple[Arm, Arm]] = ("baseline", "candidate")


class Counted(Protocol):
    """What a block is counted by: a trial's plan, or a holdback's. Times in seconds."""

    @property
    def id(self) -> str:
        """What the rows carry."""

    @property
    def block_s(self) -> float:
        """The whole block."""

    @property
    def washout_s(self) -> float:
        """Its beginning, which is not counted."""

    @property
    def min_requests(self) -> int:
        """With fewer it is not counted at all."""

    @property
    def maximize(self) -> str:
        """The intent whose token rate is part of U."""

    @property
    def reference_tokens_per_s(self) -> float:
        """What that rate is divided by."""

    @property
    def intents(self) -> tuple[IntentPlan, ...]:
        """All of the engine's."""


class _Span(Struct, frozen=True):
    """A share of a block's counted window: 0 to 1, or one of its halves. Times in µs."""

    began_us: int
    washout_us: int
    block_us: int
    start: float = 0.0
    stop: float = 1.0

    @property
    def end_us(self) -> int:
        """The block's planned end: how a request stood then is what counts."""
        return self.began_us + self.block_us

    def part(self, start: float, stop: float) -> _Span:
        """The same block, counted from ``start`` to ``stop``."""
        return _Span(self.began_us, self.washout_us, self.block_us, start, stop)

    def within(self, tail_s: float) -> tuple[int, int]:
        """This share of (began + w, began + block − tail], as (first, last]."""
        low = self.began_us + self.washout_us
        length = self.block_us - self.washout_us - round(tail_s * MICROS)
        return low + round(self.start * length), low + round(self.stop * length)


def block_values(
    plan: Counted, block: Block, requests: Sequence[RequestRow], seconds: Sequence[SecondRow]
) -> BlockValues | str:
    """The block's values, or in words why it has none (never for a reason in the outcome).

    ``plan`` is the plan in force for this block (``carry_over.plan_in_force``). Rows of other
    trials and blocks are ignored. Call it once the rows up to the block's end are complete.
    """
    span = _span(plan, block)
    if isinstance(span, str):
        return span
    rows = [row for row in requests if row.trial == plan.id and row.block == block.index]
    ticks = [row for row in seconds if row.trial == plan.id and row.block == block.index]
    return _block_values(plan, rows, ticks, span)


def crossover_values(
    plan: Counted, block: Block, requests: Sequence[RequestRow], seconds: Sequence[SecondRow]
) -> dict[Arm, BlockValues] | str:
    """What each arm showed in a crossover's one block, or in words why the block can't be counted.

    As ``block_values``, by the arm that each row carries; both arms have values, or none has.
    """
    span = _span(plan, block)
    if isinstance(span, str):
        return span
    found: dict[Arm, BlockValues] = {}
    for arm in ARMS:
        mine = (plan.id, block.index, arm)
        rows = [row for row in requests if (row.trial, row.block, row.arm) == mine]
        ticks = [row for row in seconds if (row.trial, row.block, row.arm) == mine]
        values = _block_values(plan, rows, ticks, span)
        if isinstance(values, str):
            return f"{arm}: {values}"
        found[arm] = values
    return found


def unit_differences(
    baseline: Mapping[str, float], candidate: Mapping[str, float]
) -> dict[str, float]:
    """d = candidate − baseline of every metric that both blocks have.

    A part of U that either block lacks contributes no difference: the weights stay as frozen. U
    itself has no difference only when no part has.
    """
    shared = sorted(baseline.keys() & candidate.keys() - {PRIMARY})
    d = {metric: candidate[metric] - baseline[metric] for metric in shared}
    parts = [d[metric] for metric in shared if metric.startswith(PART)]
    return d | ({PRIMARY: math.fsum(parts)} if parts else {})


def _span(plan: Counted, block: Block) -> _Span | str:
    """The whole counted window of a block, or in words why it has none."""
    if block.void is not None:
        return block.void
    if block.began_us is None:
        return "the block's settings were never read back"
    return _Span(block.began_us, round(plan.washout_s * MICROS), round(plan.block_s * MICROS))


def _block_values(
    plan: Counted, rows: Sequence[RequestRow], ticks: Sequence[SecondRow], span: _Span
) -> BlockValues | str:
    counted = {
        intent.name: _counted([row for row in rows if row.intent == intent.name], intent, span)
        for intent in plan.intents
    }
    requests = sum(len(found) for found in counted.values())
    if requests < plan.min_requests:
        return f"{requests} counted arrivals, fewer than the {plan.min_requests} planned"
    return BlockValues(
        values=_values(plan, counted, ticks, span),
        requests=requests,
        errors=sum(row.status == "error" for found in counted.values() for row in found),
        halves=(
            _half(plan, counted, ticks, span.part(0.0, 0.5)),
            _half(plan, counted, ticks, span.part(0.5, 1.0)),
        ),
    )


def _half(
    plan: Counted,
    counted: Mapping[str, Sequence[RequestRow]],
    ticks: Sequence[SecondRow],
    span: _Span,
) -> dict[str, float]:
    """The values of a part of the window, whose requests are among those counted in the whole."""
    held = {intent.name: _counted(counted[intent.name], intent, span) for intent in plan.intents}
    return _values(plan, held, ticks, span)


def _values(
    plan: Counted,
    counted: Mapping[str, Sequence[RequestRow]],
    ticks: Sequence[SecondRow],
    span: _Span,
) -> dict[str, float]:
    values: dict[str, float] = {}
    for intent in plan.intents:
        found = counted[intent.name]
        if found:
            values[f"attainment:{intent.name}"] = _attainment(found, span)
            values[f"neg_log_ttft:{intent.name}"] = _neg_log_ttft(found, span)
        rate = _rate(ticks, intent.name, span, backlog_only=intent.name == plan.maximize)
        if rate is not None:
            values[f"tokens_per_s:{intent.name}"] = rate
    parts = _parts(plan, values)
    whole = {PRIMARY: math.fsum(parts.values())} if len(parts) == len(plan.intents) + 1 else {}
    return values | parts | whole


def _parts(plan: Counted, values: Mapping[str, float]) -> dict[str, float]:
    parts = {}
    rate = values.get(f"tokens_per_s:{plan.maximize}")
    if rate is not None and plan.reference_tokens_per_s > 0:
        share = min(1.0, rate / plan.reference_tokens_per_s)
        parts[f"{PART}tokens_per_s:{plan.maximize}"] = 0.5 * share
    for intent in plan.intents:
        attainment = values.get(f"attainment:{intent.name}")
        if attainment is not None:
            share = min(1.0, attainment / intent.target_attainment)
            parts[f"{PART}attainment:{intent.name}"] = 0.5 * share / len(plan.intents)
    return parts


def _counted(rows: Sequence[RequestRow], intent: IntentPlan, span: _Span) -> list[RequestRow]:
    """Those of an intent's rows that arrived where arrivals count."""
    first_us, last_us = span.within(intent.deadline_s)
    return [row for row in rows if first_us < row.arrival_us <= last_us]


def _attainment(counted: Sequence[RequestRow], span: _Span) -> float:
    end_us = span.end_us
    finished = [row for row in counted if row.finished_us is not None and row.finished_us <= end_us]
    return sum(row.good is True for row in finished) / len(counted)


def _neg_log_ttft(counted: Sequence[RequestRow], span: _Span) -> float:
    end_us = span.end_us
    times_us = [
        min(max(row.ttft_us, SHORTEST_TTFT_US), UNFINISHED_TTFT_US)
        if row.ttft_us is not None and row.finished_us is not None and row.finished_us <= end_us
        else UNFINISHED_TTFT_US
        for row in counted
    ]
    return -math.fsum([math.log(ttft_us / MICROS) for ttft_us in times_us]) / len(counted)


def _rate(
    ticks: Sequence[SecondRow], intent: str, span: _Span, *, backlog_only: bool
) -> float | None:
    """Tokens per second of engine time over the seconds that count; None without any."""
    first_us, last_us = span.within(0.0)
    seen = [
        tick
        for tick in ticks
        if first_us < tick.to_us <= last_us
        and (not backlog_only or tick.waiting.get(intent, 0) > 0)
    ]
    length_us = sum(tick.to_us - tick.from_us for tick in seen)
    if length_us <= 0:
        return None
    return sum(tick.output_tokens.get(intent, 0) for tick in seen) * MICROS / length_us
