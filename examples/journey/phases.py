"""When chats arrive: phases with and without them, evenly spaced with a little chance. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

PHASE_JITTER_S = 0.15
SPACING_JITTER = 0.25


def arrivals(rng: Random, *, on_s: float, off_s: float, per_s: float) -> Iterator[float]:
    """Seconds after the start at which chats arrive, for ever, beginning with a phase of them.

    Evenly spaced within a phase up to a quarter, so that no gap of seconds looks like its end.
    """
    cycle = 0
    while True:
        began_s = cycle * (on_s + off_s) + rng.uniform(0, PHASE_JITTER_S)
        for index in range(int(on_s * per_s)):
            yield began_s + (index + rng.uniform(0, SPACING_JITTER)) / per_s
        cycle += 1
