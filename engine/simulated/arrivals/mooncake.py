"""Mooncake's conversation trace, as arrivals that share prefixes.

Each line is one request: ``{"timestamp": ms, "input_length", "output_length", "hash_ids"}``, by
time. ``hash_ids`` name the prompt's blocks of 512 tokens; equal ids mean equal blocks *and* equal
blocks before them, so they work as a prefix cache's keys. The last block of most prompts is cut
short; caches keep whole blocks only, so it is left out of ``prefix``.

The timestamps come in ticks of about 3 s, many requests on each: taken as they are they would hit
the engine at once, in bursts that no client sent. The requests of a tick are spread over the time
until the next tick (3 s at most), evenly at random, in the file's order.

>>> rows = ['{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}',
...         '{"timestamp": 0, "input_length": 700, "output_length": 9, "hash_ids": [0, 3]}',
...         '{"timestamp": 3000, "input_length": 500, "output_length": 2, "hash_ids": [4]}']
>>> from engine.simulated.arrivals.kinds import LIVE, always
>>> found = conversations(rows, always(LIVE), np.random.default_rng(1))
>>> [(round(o.arrival_s, 2), o.prompt_tokens, o.prefix) for o in found]
[(1.54, 1100, (0, 1)), (2.85, 700, (0,)), (3.43, 500, ())]

Source: Mooncake, FAST'25 traces (Apache-2.0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
from msgspec import Struct

from engine.simulated.arrivals.kinds import Assign
from engine.simulated.arrivals.rows import refused, whole
from engine.simulated.offered import Arrivals, Offered

BLOCK_TOKENS = 512
TICK_S = 3.0


class Row(Struct, frozen=True):
    """One line of the trace."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


def conversations(rows: Iterable[str], assign: Assign, rng: np.random.Generator) -> Arrivals:
    """The requests of an opened trace. Raises Rejected at the first line that it cannot read."""
    for tick, moments_s in _spread(_read(rows), rng):
        for row, arrival_s in zip(tick, moments_s, strict=True):
            kind = assign(row.prompt_tokens, row.output_tokens)
            yield Offered(
                arrival_s=arrival_s,
                intent=kind.intent,
                class_=kind.class_,
                prompt_tokens=row.prompt_tokens,
                output_tokens=row.output_tokens,
                prefix=row.blocks[: row.prompt_tokens // BLOCK_TOKENS],
                prefix_tokens=BLOCK_TOKENS,
            )


def _spread(
    rows: Iterator[Row], rng: np.random.Generator
) -> Iterator[tuple[list[Row], list[float]]]:
    """Each tick's rows with rising moments before the next tick."""
    ticks = ((at_s, list(found)) for at_s, found in groupby(rows, key=lambda row: row.at_s))
    held = next(ticks, None)
    while held is not None:
        following = next(ticks, None)
        at_s, found = held
        room_s = TICK_S if following is None else min(TICK_S, following[0] - at_s)
        yield found, (at_s + room_s * np.sort(rng.random(len(found)))).tolist()
        held = following


def _read(rows: Iterable[str]) -> Iterator[Row]:
    before_ms = 0
    for line, text in enumerate(rows, 1):
        row = _object(text, line)
        at_ms = whole(row.get("timestamp"), line=line, field="timestamp")
        if at_ms < before_ms:
            raise refused(line, "timestamp", at_ms, f"at least {before_ms}, as the line before")
        before_ms = at_ms
        prompt = whole(row.get("input_length"), line=line, field="input_length", at_least=1)
        output = whole(row.get("output_length"), line=line, field="output_length", at_least=1)
        yield Row(at_ms / 1000, prompt, output, _blocks(row.get("hash_ids"), prompt, line))


def _object(text: str, line: int) -> dict[str, object]:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise refused(line, "line", text.strip()[:80], f"JSON ({error})") from None
    if not isinstance(row, dict):
        raise refused(line, "line", text.strip()[:80], "a JSON object")
    return row


def _blocks(ids: object, prompt_tokens: int, line: int) -> tuple[int, ...]:
    if not isinstance(ids, list) or not all(type(block) is int for block in ids):
        raise refused(line, "hash_ids", ids, "a list of whole numbers")
    least = prompt_tokens // BLOCK_TOKENS
    if not least <= len(ids) <= least + 1:
        raise refused(line, "hash_ids", f"{len(ids)} ids", f"one for every {BLOCK_TOKENS} tokens")
    return tuple(ids)
