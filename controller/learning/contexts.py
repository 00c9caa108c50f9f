"""The learner's context: what arrives, and the time of day. Exogenous figures only.

Per second over some minutes, for a law's context may turn within one; so the figures say which kind
of hour it is, and what happens within it is for laws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.learner.port import Context
from controller.plant.offered import rates
from policies.limits import MICROS

MAX_INTENTS: Final = 6
"""With more of them their tokens are one figure: features cost samples."""
DAY_S: Final = 86_400.0

Counts = Sequence[tuple[int, Mapping[str, int]]]
"""(end of second µs, {intent: count})."""


def context_of(
    intents: Iterable[str], arrivals: Counts, offered_tokens: Counts, *, at_us: int
) -> Context:
    """The context of a stretch of time that ends at ``at_us`` (UTC).

    >>> found = context_of(["live"], [(1_000_000, {"live": 4})], [(1_000_000, {"live": 80})],
    ...                    at_us=21_600_000_000)
    >>> dict(found.features)["live.offered_tokens_per_s"], dict(found.features)["hour_sin"]
    (80.0, 1.0)
    """
    angle = 2 * math.pi * (at_us / MICROS % DAY_S) / DAY_S
    per_s, tokens = rates(arrivals), rates(offered_tokens)
    names = sorted(intents)
    found = {"hour_sin": math.sin(angle), "hour_cos": math.cos(angle)}
    found["target.arrivals_per_s"] = math.fsum(per_s.values())
    if len(names) > MAX_INTENTS:
        found["target.offered_tokens_per_s"] = math.fsum(tokens.values())
    else:
        found |= {f"{name}.offered_tokens_per_s": tokens.get(name, 0.0) for name in names}
    return Context.of({name: round(value, 6) for name, value in found.items()})
