"""The judge at work in one step: the trial's clock, units that closed, trips, the ruling."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.judge.arm_balance import unbalanced
from controller.judge.carry_over import carry_over, plan_in_force
from controller.judge.sessions import new_sessions, session_values
from controller.judge.trips import hard_trip, latency_trip
from controller.judge.values import block_values, crossover_values, unit_differences
from controller.judge.verdict import hard_ruling, rule_on
from controller.reading import undo
from controller.state import Draft, Seen
from controller.trial import blocks, budget, parties
from controller.trial.confirming import ripen
from controller.trial.ripening import ripe_us
from controller.trials import Block, BlockValues, Ruling, Trial, TrialPlan, Unit, arms_in
from policies.policy import Policy
from policies.runtime_config import Arm, RuntimeConfig
from signals.events import MICROS

DAY_US = 86_400_000_000
UNITS_PER_ALLOWED = 2
"""Voided units are replaced, but a trial opens at most this many times ``max_units`` units."""
APPLIED_WITHIN_S = 20.0
"""For a block, by an engine that answers; a step takes 0.3 s, a read-back at most some seconds."""


LOOKED_WITHIN_S = 5.0
"""Looked at less often than this, an engine was out of reach, or nobody was there to ask it."""


def judge(draft: Draft, seen: Seen) -> None:
    """Move the trial on; its policy is kept or reverted the moment the protocol says so."""
    trial = draft.trial
    if trial is None or trial.state != "running":
        return
    if any(_was_away(draft, one) for one in _waited_for(trial, seen)):
        trial = blocks.reopen(trial, now_us=draft.now_us)
    trial = draft.trial = ripen(draft, _close_units(draft, trial, seen), seen)
    policy = draft.policies[trial.plan.policy_id]
    tripped = _not_applied(draft, trial, seen) or _hard_trip(trial, seen)
    if tripped is not None:
        draft.note("trial.tripped", trial.plan.id, policy=policy.id, cause=tripped)
        draft.trial = msgspec.structs.replace(trial, ruling=hard_ruling(trial, tripped))
        undo(draft, policy, cause=f"HARMED: {tripped}", verdict="HARMED")
        return
    gone = parties.lost(draft, trial, seen) or unbalanced(trial)
    if gone is not None:
        undo(draft, policy, cause=f"INCONCLUSIVE: {gone}", verdict="INCONCLUSIVE")
        return
    if policy.state != "on_trial":
        return
    trial = draft.trial = _latency_trip(draft, trial, seen)
    ruling = rule_on(trial)
    draft.trial = trial = msgspec.structs.replace(trial, ruling=ruling)
    if ruling.verdict is not None:
        _conclude(draft, policy, ruling)
    elif len(trial.units) > UNITS_PER_ALLOWED * trial.plan.max_units:
        undo(draft, policy, cause="INCONCLUSIVE: too many void units", verdict="INCONCLUSIVE")
    else:
        engine_us = parties.engine_us(trial.plan, seen)
        draft.trial = blocks.advance(trial, now_us=draft.now_us, engine_us=engine_us)


def _close_units(draft: Draft, trial: Trial, seen: Seen) -> Trial:
    for unit in blocks.due(trial, closed_us=seen.closed_us):
        if all(block.index in seen.due for block in unit.blocks):
            judged = _value(trial, unit, seen)
            trial = _check_carry_over(draft, blocks.with_unit(trial, judged))
            draft.note(
                "trial.unit",
                trial.plan.id,
                unit=unit.index,
                arms=[arm for block in unit.blocks for arm in arms_in(trial.plan, block)],
                began_us=[block.began_us for block in unit.blocks],
                d=judged.d,
                void=judged.void,
            )
    return trial


def _value(trial: Trial, unit: Unit, seen: Seen) -> Unit:
    """The unit with its differences, or void with the reason."""
    unit = msgspec.structs.replace(unit, sessions=_sessions(trial.plan, unit, seen))
    found = _by_arm(plan_in_force(trial, unit.index), unit, seen)
    if isinstance(found, str):
        return msgspec.structs.replace(unit, void=found)
    base, candidate = found["baseline"], found["candidate"]
    return msgspec.structs.replace(
        unit,
        judged=True,
        ripe=trial.plan.ripens_s == 0,
        d=unit_differences(base.values, candidate.values),
        halves=tuple(
            unit_differences(a, b) for a, b in zip(base.halves, candidate.halves, strict=True)
        ),
        values={arm: values.values for arm, values in found.items()},
    )


def _sessions(plan: TrialPlan, unit: Unit, seen: Seen) -> dict[str, int]:
    """How many sessions came first in a unit, by arm, wherever all records of it are there."""
    rows = seen.due[unit.blocks[0].index]
    if plan.design != "session_split" or rows.incomplete:
        return {}
    return new_sessions(plan, unit.blocks[0], rows.requests, rows.earlier)


def _by_arm(plan: TrialPlan, unit: Unit, seen: Seen) -> dict[Arm, BlockValues] | str:
    """What each arm showed in the unit, or why that can't be counted."""
    found: dict[Arm, BlockValues] = {}
    for block in unit.blocks:
        rows = seen.due[block.index]
        if rows.incomplete:
            return "incomplete telemetry"
        if plan.design == "crossover":
            return crossover_values(plan, block, rows.requests, rows.seconds)
        if plan.design == "session_split":
            return session_values(plan, block, rows.requests, rows.earlier)
        values = block_values(plan, block, rows.requests, rows.seconds)
        if isinstance(values, str):
            return values
        found[block.arm] = values
    return found


def _check_carry_over(draft: Draft, trial: Trial) -> Trial:
    why = carry_over(trial)
    if why is None:
        return trial
    first = len(trial.units)
    draft.note("trial.doubled", trial.plan.id, why=why, from_unit=first)
    return msgspec.structs.replace(trial, doubled_from=first)


def _waited_for(trial: Trial, seen: Seen) -> list[RuntimeConfig]:
    """Whose absence makes a block wait anew: until it begins, that of any that takes part."""
    block = blocks.open_block(trial)
    begun = block is None or block.began_us is not None
    shown = [seen.observed] if begun else [seen.observed, *parties.shown_by(trial.plan, seen)]
    return [one for one in shown if one is not None]


def _was_away(draft: Draft, shown: RuntimeConfig) -> bool:
    """Whether this is the first look in a while: what was not asked for then has not failed."""
    last = draft.state.past.get(shown.replica)
    if last is None or last.incarnation != shown.incarnation:
        return True
    return shown.engine_time - last.read_us / MICROS > LOOKED_WITHIN_S


def _not_applied(draft: Draft, trial: Trial, seen: Seen) -> str | None:
    """Failed read-back: an engine that answers, and still has not what the open block asks for."""
    block, lacking = blocks.open_block(trial), parties.lacking(trial, seen)
    if block is None or not lacking:
        return None
    waited_s = (draft.now_us - block.opened_us) / MICROS
    if waited_s < APPLIED_WITHIN_S:
        return None
    by = f" by {', '.join(lacking)}" if trial.plan.design == "crossover" else ""
    return f"failed read-back: block {block.index} was not applied{by} within {waited_s:.0f} s"


def _hard_trip(trial: Trial, seen: Seen) -> str | None:
    """Errors among the answers of the candidate that is running."""
    block = blocks.open_block(trial)
    if block is None or trial.units[-1].tripped or "candidate" not in arms_in(trial.plan, block):
        return None
    counts = seen.counts(block.index, "candidate")
    return hard_trip(trial.plan, errors=counts.errors, answered=counts.answered)


def _latency_trip(draft: Draft, trial: Trial, seen: Seen) -> Trial:
    """Baseline for the rest of the unit; the unit still counts by assignment.

    Arms are compared over equal time: in a switchback only where the baseline's block came first,
    else while both run.
    """
    unit, block = trial.units[-1], blocks.open_block(trial)
    if block is None or block.began_us is None or unit.tripped:
        return trial
    beside = _beside(trial.plan, unit, block)
    if beside is None:
        return trial
    why = latency_trip(
        trial.plan,
        baseline_misses_s=seen.counts(beside.index, "baseline").misses_s,
        candidate_misses_s=seen.counts(block.index, "candidate").misses_s,
        ran_s=(draft.now_us + seen.skew_us - block.began_us) / MICROS,
    )
    if why is None:
        return trial
    draft.note("trial.latency_trip", trial.plan.id, block=block.index, why=why)
    rested = blocks.with_unit(trial, msgspec.structs.replace(unit, tripped=True))
    return msgspec.structs.replace(rested, trips=trial.trips + 1)


def _beside(plan: TrialPlan, unit: Unit, block: Block) -> Block | None:
    """Where the baseline ran that a running candidate can be compared with by now."""
    if plan.design != "switchback":
        return block
    return unit.blocks[0] if block.arm == "candidate" and len(unit.blocks) == 2 else None


def _provisional(trial: Trial) -> dict[str, Any]:
    """What is still to be confirmed, and when that can be."""
    if not trial.plan.aged:
        return {}
    by = tuple(one.metric for one in trial.plan.aged)
    return {"provisional": True, "confirmed_by": by, "confirm_us": ripe_us(trial)}


def _conclude(draft: Draft, policy: Policy, ruling: Ruling) -> None:
    verdict = ruling.verdict
    if draft.trial is None or verdict is None:
        return
    draft.note(
        "trial.verdict",
        draft.trial.plan.id,
        policy=policy.id,
        verdict=verdict,
        words=ruling.words,
        units=ruling.units,
        e=ruling.e,
        effect=None if ruling.effect is None else msgspec.to_builtins(ruling.effect),
    )
    if verdict == "IMPROVED":
        review_us = draft.now_us + draft.declared.trial.review_days * DAY_US
        draft.trial = blocks.finish(draft.trial, now_us=draft.now_us)
        draft.move(
            policy,
            "kept",
            verdict=verdict,
            review_us=review_us,
            cause=ruling.words,
            **_provisional(draft.trial),
        )
        budget.keep(draft, policy)
        return
    undo(draft, policy, cause=f"{verdict}: {ruling.cause or ruling.words}", verdict=verdict)
