"""The trial's clock: when a block begins, ends, is cut, and which comes next. Pure.

A block begins when the engine says it applied it, not when we asked, and ends ``block_s`` later by
the engine's clock, once the same incarnation has been read back after that. A crossover's begins
when the last replica of both halves says so: until then some ran without it. A unit in which a
block was cut (engine restart, pause, hold) is void and a new unit with its own coin takes its
place: voiding never looks at outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.judge.carry_over import plan_in_force
from controller.trials import Block, PausedBy, Trial, Unit, order, stamp_of
from policies.runtime_config import RuntimeConfig, TrialStamp
from signals.errors import Broken
from signals.events import MICROS


def begin(trial: Trial, *, now_us: int) -> Trial:
    """Open the first block of the next unit, unless all are open that may be."""
    if all_opened(trial):
        return trial
    index = len(trial.units)
    first = Block(
        index=index * trial.plan.blocks_per_unit,
        arm=order(trial.plan, index)[0],
        opened_us=now_us,
    )
    return msgspec.structs.replace(trial, units=(*trial.units, Unit(index=index, blocks=(first,))))


def read_back(trial: Trial, shown: Sequence[RuntimeConfig | None]) -> Trial:
    """Note when the open block was applied, if all that take part (``parties``) show that it is."""
    block = open_block(trial)
    if block is None or block.began_us is not None or not shown:
        return trial
    applied = [
        None if one is None else applied_at(one, stamp_of(trial, block, one.replica))
        for one in shown
    ]
    known = [at for at in applied if at is not None]
    if len(known) < len(applied):
        return trial
    return _with_block(trial, msgspec.structs.replace(block, began_us=round(max(known) * MICROS)))


def applied_at(seen: RuntimeConfig, stamp: TrialStamp | None) -> float | None:
    """When one engine applied what the stamp names, in its own time in seconds; None: not yet."""
    if seen.trial != stamp:
        return None
    times = [change.at for change in seen.changes if change.trial == seen.trial]
    return min(times) if times else (seen.applied_at or seen.engine_time)


def reopen(trial: Trial, *, now_us: int) -> Trial:
    """Wait anew for a block that the engine could not be asked to apply; one that began stays.

    In a crossover that one's replicas are waited for anew too: nobody looked whether they answer.
    """
    block = open_block(trial)
    if block is None or (block.began_us is not None and trial.plan.design != "crossover"):
        return trial
    return _with_block(trial, msgspec.structs.replace(block, opened_us=now_us))


def advance(trial: Trial, *, now_us: int, engine_us: int) -> Trial:
    """End the open block when its time is over, and open the next one.

    ``engine_us``: the engine's own time when it was last read back, in the incarnation of the
    block, the earliest of those that take part; an engine that can't be read keeps its block open,
    so that a death in it is seen.
    """
    block = open_block(trial)
    if block is None:
        return trial
    if block.began_us is None or engine_us < ends_us(trial, block):
        return trial
    trial = _with_block(trial, msgspec.structs.replace(block, ended_us=ends_us(trial, block)))
    unit = trial.units[-1]
    if len(unit.blocks) == trial.plan.blocks_per_unit:
        return begin(trial, now_us=now_us)
    arm = order(trial.plan, unit.index)[1]
    second = Block(index=2 * unit.index + 1, arm=arm, opened_us=now_us)
    return _with_unit(trial, msgspec.structs.replace(unit, blocks=(*unit.blocks, second)))


def cut(trial: Trial, *, now_us: int, why: str, d: dict[str, float] | None = None) -> Trial:
    """End the open unit early. Void, unless ``d`` says what it counts as (an emergency)."""
    block = open_block(trial)
    if block is None:
        return trial
    trial = _with_block(trial, msgspec.structs.replace(block, ended_us=now_us, cut=True))
    unit = trial.units[-1]
    ended = msgspec.structs.replace(unit, judged=d is not None, d=d or {}, void=None if d else why)
    return _with_unit(trial, ended)


def finish(trial: Trial, *, now_us: int) -> Trial:
    """The trial, over; what was open is cut and counts for nothing."""
    trial = cut(trial, now_us=now_us, why="trial over")
    return msgspec.structs.replace(trial, state="done", ended_us=now_us)


def pause(trial: Trial, *, now_us: int, by: PausedBy) -> Trial:
    """Stop the clock; the open unit is void, a new one follows on ``resume``."""
    trial = cut(trial, now_us=now_us, why=f"paused by {by}")
    return msgspec.structs.replace(trial, state="paused", paused_us=now_us, paused_by=by)


def resume(trial: Trial, *, now_us: int) -> Trial:
    """Go on with a fresh unit."""
    running = msgspec.structs.replace(trial, state="running", paused_us=None, paused_by=None)
    return begin(running, now_us=now_us)


def open_block(trial: Trial) -> Block | None:
    """The block that is not over yet, also of a paused trial."""
    if not trial.units or trial.units[-1].void is not None or trial.units[-1].judged:
        return None
    block = trial.units[-1].blocks[-1]
    return block if block.ended_us is None else None


def due(trial: Trial, *, closed_us: int) -> list[Unit]:
    """Units whose blocks are over and whose telemetry is closed, not judged yet."""
    return [
        unit
        for unit in trial.units
        if not unit.judged
        and unit.void is None
        and len(unit.blocks) == trial.plan.blocks_per_unit
        and all(b.ended_us is not None and b.ended_us <= closed_us for b in unit.blocks)
    ]


def ripening(trial: Trial, *, closed_us: int) -> list[Unit]:
    """Judged units whose exposures have come of the age at which the primary metric is read."""
    until_us = closed_us - trial.plan.ripens_s * MICROS
    return [
        unit
        for unit in trial.units
        if unit.judged
        and not unit.ripe
        and unit.void is None
        and all(b.ended_us is not None and b.ended_us <= until_us for b in unit.blocks)
    ]


def all_opened(trial: Trial) -> bool:
    """Whether a trial whose units ripen slowly has as many as it may, and only waits for them."""
    return trial.plan.ripens_s > 0 and len(trial.units) >= trial.plan.max_units


def ends_us(trial: Trial, block: Block) -> int:
    """When a block is over, in the engine's time; raises ``Broken`` before it has begun."""
    if block.began_us is None:
        raise Broken(f"block {block.index} of trial {trial.plan.id} has not begun")
    length_s = plan_in_force(trial, block.index // trial.plan.blocks_per_unit).block_s
    return block.began_us + round(length_s * MICROS)


def with_unit(trial: Trial, unit: Unit) -> Trial:
    """The trial with one unit replaced by its newer self."""
    units = tuple(unit if u.index == unit.index else u for u in trial.units)
    return msgspec.structs.replace(trial, units=units)


def _with_unit(trial: Trial, unit: Unit) -> Trial:
    return msgspec.structs.replace(trial, units=(*trial.units[:-1], unit))


def _with_block(trial: Trial, block: Block) -> Trial:
    unit = trial.units[-1]
    return _with_unit(trial, msgspec.structs.replace(unit, blocks=(*unit.blocks[:-1], block)))
