"""How long one cycle of a law's context takes: needed to try a law over whole cycles only.

Half a cycle in one arm and half in the other would compare quiet with busy, not law with baseline.
The law is replayed over the recorded arrivals; a cycle runs from one rise out of its default to
the next. Arrivals come by chance, so within a busy phase there are pauses longer than the law's
window, and rises after them that begin no cycle: pauses shorter than some length are bridged, the
shortest of a few lengths that leaves even cycles.

>>> from policies.laws import LawStep
>>> on_off = [(second * 1_000_000, 1 if second % 16 < 8 else 0) for second in range(96)]
>>> law = Law(variable="arrivals", class_="interactive", window_s=2.0, default=64,
...           steps=(LawStep(above=0, value=8),))
>>> cycle_s(law, on_off)
16.0
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from policies.laws import Law, advance, start

MIN_RISES = 4
MAX_SPREAD = 0.25
"""Standard deviation over mean of the cycles' lengths; above it there is no cycle to speak of."""
BRIDGES = (0, 2, 4, 8, 16)
"""Pauses that belong to a busy phase, in windows of the law; the first that will do is taken."""


def cycle_s(law: Law, counts: Sequence[tuple[int, float]]) -> float | None:
    """Mean cycle in seconds from (end of second µs, the variable's count in it), by time.

    None when fewer than ``MIN_RISES`` rises were seen or their distances spread too much.
    """
    rises = _rises(law, counts)
    for bridge in BRIDGES:
        kept = [at_us for at_us, paused_us in rises if paused_us >= bridge * law.window_s * 1e6]
        gaps = [(b - a) / 1e6 for a, b in pairwise(kept)]
        if len(kept) < MIN_RISES:
            return None
        mean = statistics.fmean(gaps)
        spread = math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / len(gaps))
        if spread <= MAX_SPREAD * mean:
            return round(mean, 1)
    return None


def whole_cycles_s(cycle: float, *, washout_s: float, at_least_s: float) -> float:
    """Block length w + k whole cycles, the shortest that is at least ``at_least_s``."""
    k = max(1, math.ceil((at_least_s - washout_s) / cycle))
    return washout_s + k * cycle


def _rises(law: Law, counts: Sequence[tuple[int, float]]) -> list[tuple[int, int]]:
    """When the law left its default, and how long it had been there as far as is known, in µs."""
    rises: list[tuple[int, int]] = []
    if not counts:
        return rises
    state, fell_us = start(law, now_s=counts[0][0] / 1e6), None
    scale = law.window_s if law.variable == "offered_tokens_per_s" else 1.0
    for index, (at_us, count) in enumerate(counts):
        highest = state.level == len(law.steps) and count > law.steps[-1].above * scale
        if highest or (state.level == 0 and count == 0):
            continue  # nothing can move: most seconds are like that
        x = _in_window(law, counts, index)
        after = advance(law, state, x=x, now_s=at_us / 1e6)
        if state.level == 0 and after.level > 0 and index > 0:
            rises.append((at_us, at_us - (counts[0][0] if fell_us is None else fell_us)))
        if state.level > 0 and after.level == 0:
            fell_us = at_us
        state = after
    return rises


def _in_window(law: Law, counts: Sequence[tuple[int, float]], index: int) -> float:
    since_us = counts[index][0] - round(law.window_s * 1e6)
    total = 0.0
    while index >= 0 and counts[index][0] > since_us:
        total += counts[index][1]
        index -= 1
    return total / law.window_s if law.variable == "offered_tokens_per_s" else total
