"""Identifiers that rise with time: UUID version 7 (RFC 9562), made from arguments alone.

The 12 bits after the version carry the microseconds within the millisecond (RFC 9562, 6.2, method
3), so ids made in different microseconds sort by time; within one microsecond chance decides.

>>> uuid7(1_700_000_000_123_456, bytes(8))
'018bcfe5-687b-774b-8000-000000000000'
"""

from __future__ import annotations

import uuid

RANDOM_BYTES = 8


def uuid7(now_us: int, random: bytes) -> str:
    """The id in its 36-character form. ``random``: at least 8 bytes, of which 62 bits are used."""
    if len(random) < RANDOM_BYTES:
        raise ValueError(f"a UUID needs {RANDOM_BYTES} random bytes, not {len(random)}")
    millis, micros = divmod(now_us, 1000)
    fraction = micros * 4096 // 1000
    tail = int.from_bytes(random[:RANDOM_BYTES], "big") & ((1 << 62) - 1)
    number = (millis & ((1 << 48) - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | tail
    return str(uuid.UUID(int=number))
