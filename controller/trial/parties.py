"""Who takes part in a trial's blocks, and what each of them shows now. Pure.

A switchback, and a split of sessions, go by the first replica; the others are brought along. A
crossover goes by every replica of its frozen split: a block begins and ends with the last of them,
and one that is gone for good ends the trial, for halves that are no longer the frozen ones are no
fair comparison.
"""

from __future__ import annotations

from controller.state import Draft, Seen
from controller.trial import blocks
from controller.trials import Trial, TrialPlan, stamp_of
from policies.runtime_config import RuntimeConfig
from signals.events import MICROS

LOST_AFTER_S = 60.0
"""An engine that died is back within this, or it is not waited for any longer."""
CLOCKS_APART_S = 10.0
"""Of replicas that restarted since they were split. No look is that old; blocks would last so much
longer."""


def shown_by(plan: TrialPlan, seen: Seen) -> list[RuntimeConfig | None]:
    """What each that takes part shows, in the order of ``members``; None: it does not answer."""
    if plan.design != "crossover":
        return [seen.observed]
    answering = {one.replica: one for one in (seen.observed, *seen.others) if one is not None}
    return [answering.get(name) for name in plan.members]


def engine_us(plan: TrialPlan, seen: Seen) -> int:
    """Until when all that take part have been read back, in their own time; 0: one is away."""
    shown = shown_by(plan, seen)
    times = [round(one.engine_time * MICROS) for one in shown if one is not None]
    return min(times) if len(times) == len(shown) else 0


def lacking(trial: Trial, seen: Seen) -> list[str]:
    """Those that have not applied the open block, once all that take part answer.

    While one is away the others may well have applied it, and fallen back when its time was over.
    """
    block, every = blocks.open_block(trial), shown_by(trial.plan, seen)
    shown = [one for one in every if one is not None]
    if block is None or block.began_us is not None or len(shown) < len(every):
        return []
    wanting = [one for one in shown if one.trial != stamp_of(trial, block, one.replica)]
    return [one.replica for one in wanting]


def lost(draft: Draft, trial: Trial, seen: Seen) -> str | None:
    """Why a crossover can't go on: a replica of the split has not answered for too long.

    The time counts from its last answer; from the block's end, as long as which a death in it would
    be put down to it; and from when the block was first wished for: before that perhaps nobody
    asked. Nor can it where one answers by whose clock the block that it shows is yet to begin.
    """
    block = blocks.open_block(trial)
    if block is None or trial.plan.design != "crossover":
        return None
    floor_us = block.opened_us
    if block.began_us is not None:
        if 0 < engine_us(trial.plan, seen) < block.began_us - round(CLOCKS_APART_S * MICROS):
            return "the clocks of the frozen split's replicas do not agree any more"
        floor_us = max(floor_us, blocks.ends_us(trial, block) - seen.skew_us)
    for name, shown in zip(trial.plan.members, shown_by(trial.plan, seen), strict=True):
        past = draft.past.get(name)
        answered_us = 0 if past is None else past.read_us - seen.skew_us
        waited_s = (draft.now_us - max(floor_us, answered_us)) / MICROS
        if shown is None and waited_s >= LOST_AFTER_S:
            return f"replica {name} of the frozen split does not answer any more"
    return None
