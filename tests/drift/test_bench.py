from __future__ import annotations

import math

from benchmarks.drift import DETECTORS, HOUR_BLOCKS, WORLDS, Block, alarms, path


def test_a_path_has_a_block_every_half_minute_and_is_the_same_again() -> None:
    blocks = path(WORLDS[0], 3, hours=0.1)
    assert len(blocks) == round(0.1 * HOUR_BLOCKS)
    assert blocks == path(WORLDS[0], 3, hours=0.1)
    assert blocks != path(WORLDS[0], 4, hours=0.1)
    assert all(math.isfinite(block.figure) for block in blocks)


def test_alarms_are_counted_when_they_begin() -> None:
    level = [Block((1.0, 1.0), 2.0 + 0.1 * (-1) ** (n % 3)) for n in range(80)]
    later = [Block((1.0, 1.0), 4.0 + 0.1 * (-1) ** (n % 3)) for n in range(20)]
    found = alarms([*level, *later], raw=False)
    assert set(found) == set(DETECTORS)
    assert all(begun and 80 <= begun[0] < 90 for begun in found.values()), found
    assert {name: [] for name in DETECTORS} == alarms(level, raw=False)
