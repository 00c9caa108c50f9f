"""Quantiles of durations that can be merged in any order: DDSketch bins, counted in integers.

A value falls into bin ``ceil(log_γ(value))`` with γ = (1 + α)/(1 − α), so each quantile read back
is within α = 1 % of a value that was there. Only ``ddsketch``'s mapping is used: its stores count
in floats and keep a sum that depends on the order; here bins are integers, so the bytes do not.

>>> bins = {}
>>> for value_us in (1_000, 2_000, 400_000):
...     add(bins, value_us)
>>> round(quantile(bins, 0.5))
2019
>>> decode(encode(bins)) == bins
True

Reference: Masson, Rim, Lee, "DDSketch", VLDB 2019. Not t-digest or KLL: both depend on the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log, log1p

import msgspec
from ddsketch.mapping import LogarithmicMapping

RELATIVE_ACCURACY = 0.01

_mapping = LogarithmicMapping(RELATIVE_ACCURACY)
_PER_LOG2 = log(2) / log1p(2 * RELATIVE_ACCURACY / (1 - RELATIVE_ACCURACY))
"""For ``_mapping.key`` without its calls: three durations of every request come by here."""
_decoder = msgspec.msgpack.Decoder(list[int])

Bins = dict[int, int]
"""Bin key -> how many values."""


def add(bins: Bins, value_us: int, count: int = 1) -> None:
    """Count a duration in µs; anything below 1 µs counts as 1 µs."""
    key = ceil(log(value_us, 2) * _PER_LOG2) if value_us > 1 else 0
    bins[key] = bins.get(key, 0) + count


def merge(bins: Bins, other: Mapping[int, int]) -> None:
    """Add what ``other`` counted."""
    for key, count in other.items():
        bins[key] = bins.get(key, 0) + count


def quantile(bins: Mapping[int, int], q: float) -> float | None:
    """The ``q`` quantile (0 to 1) in µs, within 1 %; None without values."""
    total = sum(bins.values())
    if total <= 0:
        return None
    rank, below = q * (total - 1), 0
    for key in sorted(bins):
        below += bins[key]
        if below > rank:
            return float(_mapping.value(key))
    return float(_mapping.value(max(bins)))


def middle_us(key: int) -> float:
    """What a bin's values are read back as, within 1 %."""
    return float(_mapping.value(key))


def encode(bins: Mapping[int, int]) -> bytes:
    """The same bins always give the same bytes; none give ``b""``."""
    flat = [number for key in sorted(bins) if bins[key] for number in (key, bins[key])]
    return msgspec.msgpack.encode(flat) if flat else b""


def decode(sketch: bytes) -> Bins:
    """The bins of ``encode``'s bytes."""
    flat = _decoder.decode(sketch) if sketch else []
    return dict(zip(flat[::2], flat[1::2], strict=True))
