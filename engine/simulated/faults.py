"""What may go wrong with a replica, and when. Each lands at its first step boundary at ``at_us``.

====================  ==============================================================================
``Slowdown``          steps take ``factor`` times as long from then on (1 = as new)
``Stall``             no step and no settings change for ``for_us``; arrivals pile up
``Restart``           it ends what it had with errors, is away for ``down_us``, and comes back as a
                      new incarnation in boot settings: it forgets
``MemoryShrinks``     so many KV blocks really fit from then on, whatever the engine believes: the
                      step that needs more kills it (``MEMORY_EXHAUSTED``), then as ``Restart``
``Refuses``           PATCH fails for ``for_us``: ``Unavailable``, or ``Rejected`` if ``rejects``
``TelemetryLoss``     its records of ``for_us`` are lost: a gap in the sequence
``ClockSkew``         its wall clock is off by ``skew_us`` from then on
====================  ==============================================================================
"""

from __future__ import annotations

from msgspec import Struct

from signals.events import MEMORY_EXHAUSTED

__all__ = ["MEMORY_EXHAUSTED"]

RESTARTED = "restarted"


class Slowdown(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    factor: float


class Stall(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    for_us: int


class Restart(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    down_us: int


class MemoryShrinks(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    blocks: int


class Refuses(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    for_us: int
    rejects: bool = False


class TelemetryLoss(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    for_us: int


class ClockSkew(Struct, frozen=True, kw_only=True):
    """See the module."""

    replica: str
    at_us: int
    skew_us: int


Fault = Slowdown | Stall | Restart | MemoryShrinks | Refuses | TelemetryLoss | ClockSkew
