"""A target followed for drift: what is told, how soon, how often wrongly; what is remembered."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from numpy.random import PCG64, Generator

from controller.drift.blocks import DriftBlock
from controller.drift.following import DriftState
from controller.drift.noting import due_drift, noted_drift
from controller.drift.settings import DriftSettings
from signals.events import MICROS

LIMITS = DriftSettings()
BLOCK_US = LIMITS.block_s * MICROS
HOUR = 3600 // LIMITS.block_s
UNKNOWN = DriftState()
WITHIN = 8
"""Blocks: 4 minutes."""


def life(seed: int, blocks: int, *, jump: float = 0.0, at: int = 0) -> list[DriftBlock]:
    """Load that wanders for minutes; latencies that follow it, with noise of neighbouring blocks
    alike (.6). From ``at`` on the logs of both are ``jump`` higher.
    """
    rng, load, noise = Generator(PCG64(seed)), 0.0, np.zeros(2)
    found, digest = [], "d"
    for n in range(blocks):
        load = 0.9 * load + 0.3 * rng.normal()
        noise = 0.6 * noise + 0.05 * rng.normal(size=2)
        base = np.array([11.0 + 0.4 * load + 0.1 * load**2, 10.0 + 0.2 * load]) + noise
        ttft, tpot = base + (jump if n >= at else 0.0)
        lengths = 4.0 + 0.05 * rng.normal()
        context: dict[str, tuple[float, ...]] = {"live": (load, lengths, 1.2 * load)}
        figures = {"ttft:live": float(ttft), "tpot:live": float(tpot)}
        found.append(
            DriftBlock(to_us=(n + 1) * BLOCK_US, digest=digest, figures=figures, context=context)
        )
    return found


def alarms(blocks: list[DriftBlock], state: DriftState = UNKNOWN) -> tuple[list[int], DriftState]:
    """At which blocks an alarm began."""
    begun = []
    for n, block in enumerate(blocks):
        was, state = state.alarm, state.taking(block, LIMITS)
        if state.alarm is not None and was is None:
            begun.append(n)
    return begun, state


def test_load_that_wanders_for_hours_alarms_less_than_once_in_two_hours() -> None:
    seeds, hours = range(1, 6), 3
    found = {seed: len(alarms(life(seed, hours * HOUR))[0]) for seed in seeds}
    assert sum(found.values()) <= 0.5 * hours * len(seeds), found


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_step_of_two_fifths_is_found_within_eight_blocks(seed: int) -> None:
    at = 100
    _, state = alarms(life(seed, at + WITHIN, jump=math.log(1.4), at=at))
    assert state.alarm is not None, seed
    assert state.alarm.last_us > at * BLOCK_US


def test_an_alarm_ends_by_itself_once_the_new_level_is_the_usual_one() -> None:
    begun, state = alarms(life(3, 100 + HOUR, jump=0.5, at=100))
    assert len(begun) == 1, begun
    assert state.alarm is None


def test_an_alarm_stands_for_its_time_after_the_last_sign() -> None:
    blocks = life(4, 110, jump=0.5, at=100)
    _, state = alarms(blocks)
    assert state.alarm is not None
    last_us = state.alarm.last_us
    stands = LIMITS.stands_s * MICROS
    quiet = state.taking(DriftBlock(to_us=last_us + stands - 1), LIMITS)
    assert quiet.alarm is not None
    assert quiet.taking(DriftBlock(to_us=last_us + stands), LIMITS).alarm is None


def test_other_settings_are_another_engine_and_the_old_ones_are_known_again() -> None:
    before = life(5, 100)
    other = [msgspec.structs.replace(b, digest="e") for b in life(6, 130, jump=1.0)[100:]]
    again = life(5, 160)[130:]
    begun, state = alarms([*before, *other, *again])
    assert begun == []
    assert set(state.references) == {"d", "e"}
    assert state.references["d"].watches["ttft:live"].model.n == 130


def test_only_so_many_settings_are_remembered_those_used_last() -> None:
    state = DriftState()
    for n, digest in enumerate("abcdefa"):
        state = state.taking(msgspec.structs.replace(life(1, n + 1)[n], digest=digest), LIMITS)
    assert set(state.references) == {"d", "e", "f", "a"}


def test_a_block_counts_once_and_in_order() -> None:
    blocks = life(7, 30)
    _, state = alarms(blocks)
    assert state.taking(blocks[10], LIMITS) == state
    assert state.taking(blocks[29], LIMITS) == state


def test_what_is_noted_goes_on_where_it_was() -> None:
    blocks = life(8, 140, jump=0.4, at=120)
    _, half = alarms(blocks[:90])
    restored = noted_drift(msgspec.json.encode(half).decode())
    assert restored == half
    assert alarms(blocks[90:], restored) == alarms(blocks[90:], half)


def test_it_is_written_when_the_alarm_changes_and_now_and_then() -> None:
    _, state = alarms(life(9, 20))
    every = LIMITS.noted_s // LIMITS.block_s
    noted = state
    assert not due_drift(noted, noted, LIMITS)
    blocks = life(9, 20 + every)
    _, later = alarms(blocks[20:-1], state)
    assert not due_drift(later, noted, LIMITS)
    assert due_drift(later.taking(blocks[-1], LIMITS), noted, LIMITS)
    _, alarmed = alarms(life(4, 106, jump=0.5, at=100))
    assert due_drift(alarmed, msgspec.structs.replace(alarmed, alarm=None), LIMITS)


def test_forgetting_lets_a_new_level_be_learned_without_an_alarm() -> None:
    blocks = life(10, 200, jump=0.6, at=100)
    _, before = alarms(blocks[:100])
    begun, _ = alarms(blocks[100:], before.forgotten(to_us=blocks[99].to_us))
    assert begun == []
