"""The clock of a crossover: one block a unit, begun by the last replica, numbered like its unit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from controller.trial import blocks
from controller.trials import Trial, TrialPlan, arms, arms_in, stamp_of
from policies.runtime_config import RuntimeConfig
from signals.events import MICROS
from tests.judge.builders import BEGAN_US, PLAN, plan

SPLIT = (("r0", "r3"), ("r1", "r2"))
BEGAN_S = BEGAN_US / MICROS


def begun(**changes: object) -> Trial:
    """A crossover of four replicas with its first block open."""
    frozen = plan(design="crossover", split=SPLIT)
    trial = msgspec.structs.replace(Trial(plan=frozen, began_us=BEGAN_US), **changes)
    return blocks.begin(trial, now_us=BEGAN_US)


def showing(trial: Trial, applied_s: Sequence[float | None]) -> list[RuntimeConfig | None]:
    """What each member shows: its stamp since then, or (None) that it does not answer."""
    block = blocks.open_block(trial)
    assert block is not None
    return [
        None if at is None else _shown(trial, name, stamp_of(trial, block, name), at)
        for name, at in zip(trial.plan.members, applied_s, strict=True)
    ]


def _shown(trial: Trial, name: str, stamp: object, at_s: float) -> RuntimeConfig:
    return RuntimeConfig(
        target=trial.plan.target,
        replica=name,
        incarnation="i1",
        version=1,
        digest="d",
        epoch=1,
        hold=False,
        engine_time=BEGAN_S + 100.0,
        applied_at=BEGAN_S + at_s,
        trial=stamp,  # type: ignore[arg-type]
        knobs=(),
        settings=(),
    )


def test_a_block_begins_when_the_last_replica_applied_it() -> None:
    trial = begun()
    read = blocks.read_back(trial, showing(trial, [1.0, 2.5, 0.5, 2.0]))
    block = read.units[0].blocks[0]
    assert block.began_us == BEGAN_US + round(2.5 * MICROS)


def test_a_block_does_not_begin_while_one_is_silent_or_shows_another_arm() -> None:
    trial = begun()
    assert blocks.read_back(trial, showing(trial, [1.0, None, 0.5, 2.0])) == trial
    shown = showing(trial, [1.0, 2.5, 0.5, 2.0])
    assert shown[0] is not None and shown[2] is not None
    shown[0] = msgspec.structs.replace(shown[0], trial=shown[2].trial)
    assert blocks.read_back(trial, shown) == trial


def test_a_unit_is_one_block_numbered_like_it_and_due_when_that_is_over() -> None:
    trial, ends_us = begun(), 0
    for index in range(5):
        trial = blocks.read_back(trial, showing(trial, [1.0, 1.0, 1.0, 1.0]))
        block = trial.units[-1].blocks[0]
        assert (block.index, block.arm) == (index, arms(PLAN.seed, index)[0])
        assert sorted(arms_in(trial.plan, block)) == ["baseline", "candidate"]
        ends_us = blocks.ends_us(trial, block)
        waits = blocks.advance(trial, now_us=BEGAN_US, engine_us=ends_us - 1)
        assert waits == trial
        trial = blocks.advance(trial, now_us=BEGAN_US, engine_us=ends_us)
    assert [len(unit.blocks) for unit in trial.units] == [1] * 6
    assert [unit.index for unit in blocks.due(trial, closed_us=ends_us)] == [0, 1, 2, 3, 4]
    assert blocks.due(trial, closed_us=ends_us - 1) == []


def test_blocks_are_twice_as_long_from_the_doubled_unit_on() -> None:
    trial = begun(doubled_from=1)
    lengths = []
    for _ in range(3):
        trial = blocks.read_back(trial, showing(trial, [0.0] * 4))
        ends_us = blocks.ends_us(trial, trial.units[-1].blocks[0])
        lengths.append((ends_us - BEGAN_US) / MICROS)
        trial = blocks.advance(trial, now_us=BEGAN_US, engine_us=ends_us)
    assert lengths == [30.0, 60.0, 60.0]


@pytest.mark.parametrize("design", ["switchback", "crossover"])
def test_a_plan_that_was_stored_before_there_were_designs_is_a_switchback(design: str) -> None:
    stored = msgspec.to_builtins(plan(design=design, split=SPLIT))
    assert msgspec.convert(stored, TrialPlan) == plan(design=design, split=SPLIT)
    for later in ("design", "split"):
        del stored[later]
    old = msgspec.convert(stored, TrialPlan)
    assert (old.design, old.split, old.blocks_per_unit) == ("switchback", ((), ()), 2)
