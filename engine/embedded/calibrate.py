"""What a step costs on this machine, measured at boot: a few seconds, before the first request.

Two families of points go to the controller's plant model: decoding sequences alone, and the first
chunk of a prompt alone; each is a median. The highest step token budget is the largest chunk whose
step stayed within the limit at least once: at boot other processes start too, and what they take
away then is no property of this machine. A chunk deep in a long prompt costs more, up to twice as
much at the end of 2,048 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median_low

import numpy as np

from engine.embedded.kernels.calling import CHOICE
from engine.embedded.kv import blocks_for
from engine.embedded.model import Model, Rows, rows_of
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
            decode=n,
            prefill=0,
            step_us=median_low(_times_us(model, _decoding(model, n), repeats, clock)),
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
        times_us = _times_us(model, _chunk(n), repeats, clock)
        points.append(CurvePoint(decode=0, prefill=n, step_us=median_low(times_us)))
        if min(times_us) > limit_ms * MICROS // 1000:
            break
        best = n
    return tuple(points), best


def _chunks(model: Model, capacity: int) -> Iterator[int]:
    highest = min(capacity, model.context)
    yield from (n for n in CHUNKS if n < highest)
    yield highest


def _times_us(model: Model, rows: Rows, repeats: int, clock: Clock) -> list[int]:
    def once() -> int:
        began_s = clock()
        model.step(rows)
        return round((clock() - began_s) * MICROS)

    return [once() for _ in range(repeats)]


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


def _chunk(count: int) -> Rows:
    """The first chunk of one prompt."""
    tokens = [100 + at for at in range(count)]
    blocks = list(range(blocks_for(count)))
    return rows_of(tokens, start=0, table=blocks, choice=(0.0, 1.0, 0))
