"""What a step costs on this machine, measured at boot: a few seconds, before the first request.

Two families of points go to the controller's plant model: decoding sequences alone, and a prompt's
chunk alone. The highest step token budget is then the largest chunk that stays within the step
limit even in the middle of the longest prompt, where attention is dearer than at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from engine.embedded.kernels.calling import CHOICE
from engine.embedded.kv import blocks_for
from engine.embedded.model import Model, Rows
from signals.events import MICROS, CurvePoint

DECODE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CHUNKS = (64, 96, 128, 192, 256, 320, 384, 448, 512, 768, 1024, 1536, 2048)
DECODE_DEPTH = 128
"""Tokens each measured sequence has behind it: a short chat."""

Clock = Callable[[], float]


def measure_decode(
    model: Model, *, capacity: int, repeats: int, clock: Clock
) -> tuple[CurvePoint, ...]:
    """Median step of 1, 2, 4, … ``capacity`` decoding sequences."""
    counts = sorted({*(n for n in DECODE_COUNTS if n < capacity), capacity})
    return tuple(
        CurvePoint(
            decode=n, prefill=0, step_us=_median_us(model, _decoding(model, n), repeats, clock)
        )
        for n in counts
    )


def measure_prefill(
    model: Model, *, capacity: int, limit_ms: int, repeats: int, clock: Clock
) -> tuple[tuple[CurvePoint, ...], int]:
    """Median step of growing chunks, up to the first beyond ``limit_ms``; the budget's capacity.

    The smallest chunk is the capacity's floor even where it is too slow.
    """
    points, best = [], CHUNKS[0]
    for n in _chunks(model, capacity):
        step_us = _median_us(model, _chunk(n, start=0), repeats, clock)
        points.append(CurvePoint(decode=0, prefill=n, step_us=step_us))
        deep_us = _median_us(model, _chunk(n, start=(model.context - n) // 2), repeats, clock)
        if deep_us > limit_ms * MICROS // 1000:
            break
        best = n
    return tuple(points), best


def _chunks(model: Model, capacity: int) -> Iterator[int]:
    highest = min(capacity, model.context)
    yield from (n for n in CHUNKS if n < highest)
    yield highest


def _median_us(model: Model, rows: Rows, repeats: int, clock: Clock) -> int:
    def once() -> float:
        began_s = clock()
        model.step(rows)
        return clock() - began_s

    return round(median(once() for _ in range(repeats)) * MICROS)


def _decoding(model: Model, count: int) -> Rows:
    """``count`` sequences at ``DECODE_DEPTH``, over distinct blocks as far as the pool goes."""
    depth = min(DECODE_DEPTH, model.context) - 1
    blocks = blocks_for(depth + 1)
    tables = np.arange(count * blocks, dtype=np.int32).reshape(count, blocks) % model.kv_blocks
    return Rows(
        tokens=np.arange(count, dtype=np.int32) + 100,
        positions=np.full(count, depth, dtype=np.int32),
        sequence=np.arange(count, dtype=np.int32),
        tables=tables,
        chosen=np.arange(count, dtype=np.int32),
        choices=np.array([(1.0, 1.0, seed, depth + 1) for seed in range(count)], dtype=CHOICE),
    )


def _chunk(count: int, *, start: int) -> Rows:
    """A chunk of one prompt, ``start`` tokens in."""
    return Rows(
        tokens=np.arange(count, dtype=np.int32) + 100,
        positions=np.arange(start, start + count, dtype=np.int32),
        sequence=np.zeros(count, dtype=np.int32),
        tables=np.arange(blocks_for(start + count), dtype=np.int32)[None, :],
        chosen=np.array([count - 1], dtype=np.int32),
        choices=np.array([(0.0, 1.0, 0, start + count)], dtype=CHOICE),
    )
