"""Ids of records: a short prefix that says what it is, and a UUIDv7, so ids rise with time.

>>> new_id("pol", 1_700_000_000_123_456, bytes(8))
'pol_018bcfe5687b774b8000000000000000'
"""

from __future__ import annotations

from signals.ids import uuid7


def new_id(prefix: str, now_us: int, random: bytes) -> str:
    """``<prefix>_<32 hex digits>``. ``random``: at least 8 bytes (``os.urandom(8)``)."""
    return f"{prefix}_{uuid7(now_us, random).replace('-', '')}"


def first_id(prefix: str, from_us: int) -> str:
    """The lowest id that a record made at this time or later can have.

    >>> first_id("pol", 1_700_000_000_123_456) <= new_id("pol", 1_700_000_000_123_456, bytes(8))
    True
    """
    return new_id(prefix, from_us, bytes(8))
