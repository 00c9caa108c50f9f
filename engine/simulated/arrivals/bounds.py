"""Refuses numbers that no load can have, by name and value.

>>> within("per_s", 2.0, 0.0, 10.0)
>>> within("per_s", -1.0, 0.0, 10.0)
Traceback (most recent call last):
signals.errors.Rejected: per_s -1.0: from 0 to 10
"""

from __future__ import annotations

from signals.errors import Rejected

MOST_PER_S = 1e6
MOST_S = 1e9
MOST_TOKENS = 10_000_000
"""Bounds of what is believed; beyond them a unit was mixed up."""


def within(field: str, value: float, low: float, high: float) -> None:
    """Raise Rejected unless low ≤ value ≤ high; NaN is neither."""
    if not low <= value <= high:
        allowed = f"from {low:,g} to {high:,g}"
        raise Rejected(f"{field} {value!r}: {allowed}", field=field, value=value, allowed=allowed)


def above(field: str, value: float, low: float, high: float) -> None:
    """Raise Rejected unless low < value ≤ high."""
    if not low < value <= high:
        allowed = f"above {low:,g}, to {high:,g}"
        raise Rejected(f"{field} {value!r}: {allowed}", field=field, value=value, allowed=allowed)
