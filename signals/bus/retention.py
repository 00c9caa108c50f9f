"""Which segments go, and when the log takes no more. Decided here, done by the keeper.

Whole segments, the oldest first, and only what every named consumer has behind it::

    │ read by all │ read by all │ not yet │ appended to │
          ▲ goes when older than retention_s, or while the log is above max_bytes
                                    ▲ never goes; at hard_bytes appends are refused instead
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from signals.bus.port import Consumed
from signals.errors import TrimtabError


class Sealed(Struct, frozen=True, kw_only=True):
    """A segment that is not appended to any more."""

    first: int
    last: int
    bytes: int
    newest_us: int
    """When its last frame was accepted; 0 for one that is empty."""


class Limits(Struct, frozen=True, kw_only=True):
    """What is kept at most; see the settings of the same names."""

    before_us: int
    max_bytes: int


def droppable(
    sealed: Sequence[Sealed], *, total_bytes: int, consumed: int | None, limits: Limits
) -> int:
    """How many of the oldest go. ``consumed``: what all have behind them, None = not known.

    >>> def segment(first: int) -> Sealed:
    ...     return Sealed(first=first, last=first + 9, bytes=100, newest_us=first)
    >>> kept = Limits(before_us=5, max_bytes=250)
    >>> droppable([segment(1), segment(11)], total_bytes=260, consumed=25, limits=kept)
    1
    >>> droppable([segment(1), segment(11)], total_bytes=900, consumed=15, limits=kept)
    1
    >>> droppable([segment(1), segment(11)], total_bytes=900, consumed=None, limits=kept)
    0
    """
    if consumed is None:
        return 0
    count = 0
    for segment in sealed:
        old = segment.newest_us < limits.before_us
        if segment.last > consumed or not (old or total_bytes > limits.max_bytes):
            break
        total_bytes -= segment.bytes
        count += 1
    return count


def offset_of(consumed: Consumed) -> int | None:
    """A consumer's offset; None when it cannot be read, for whatever reason of ours."""
    try:
        return consumed()
    except TrimtabError:
        return None


def behind_all(offsets: Mapping[str, int | None]) -> int | None:
    """What every consumer has behind it: None when one is not known, or nobody is named.

    >>> behind_all({"features": 7, "export": 3}), behind_all({"features": 7, "export": None})
    (3, None)
    """
    known = [offset for offset in offsets.values() if offset is not None]
    return min(known) if known and len(known) == len(offsets) else None


def who_holds(offsets: Mapping[str, int | None], *, end: int) -> str:
    """The slowest consumer, in words.

    >>> who_holds({"features": 7, "export": 3}, end=9)
    "the slowest consumer, 'export', is at offset 3 of 9"
    """
    if not offsets:
        return "no consumer is named, so that nothing may go"
    unknown = sorted(name for name, offset in offsets.items() if offset is None)
    if unknown:
        return f"the offset of the consumer '{unknown[0]}' cannot be read (the log ends at {end})"
    slowest = min(offsets, key=lambda name: offsets[name] or 0)
    return f"the slowest consumer, '{slowest}', is at offset {offsets[slowest]} of {end}"
