"""Losses that come seldom: how many units exclude them, and when a trial has seen them.

Idea. A loss that comes in a share r of the units is in none of the first n with probability
(1 − r)ⁿ, and until it comes nothing tells such a candidate from one that has no such loss. So a
judge that keeps gains after n units keeps, with that probability at least, a candidate that gains
as often and loses much in one unit of 1/r; no statistic of the same units can do better. Seven
units say nothing of losses in fewer than half of them; to exclude one in twenty takes 90.

::

    n(r) = ⌈ln(1 − confidence) / ln(1 − r)⌉        r(n) = 1 − (1 − confidence)^(1/n)

And what is seen has to count. A mean can pay for a rare loss with small gains, also the mean with
the worst tenth counted twice: a guard that is .5 lower in one unit of 20 is .025 lower on average.
Hence large differences are counted for themselves, on each side: with no effect the coin puts as
many of them on the one side as on the other, so those against the candidate may not be more.

>>> units_to_exclude(0.05), round(unseen_share(7), 2)
(90, 0.48)
>>> loses_big([0.1] * 20 + [-2.0], scale=1.0), loses_big([1.2, -0.8], scale=1.0)
(True, False)

Why not a bet on the mean (``betting``) in its place: it would have to believe in losses of .5 or
more in every unit that it has not seen, and takes as long, even where nobody fears them.

Reference: J. Hanley and A. Lippman-Hand, "If nothing goes wrong, is everything all right?", Journal
of the American Medical Association 249 (1983): the rule of three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

CONFIDENCE: Final = 0.99
"""As the verdicts themselves."""
LARGE: Final = 0.5
"""A difference is large from this share of its metric's scale on: .5 of U, a quarter of a rate."""


def units_to_exclude(share: float) -> int:
    """Units without such a loss that exclude, at 99 %, one in this ``share`` (0 to 1) of units."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - share))


def unseen_share(units: int) -> float:
    """The largest share of units in which a loss can come and not be seen in ``units`` (≥ 1)."""
    return float(1 - (1 - CONFIDENCE) ** (1 / units))


def loses_big(ds: Sequence[float], *, scale: float) -> bool:
    """Whether large differences against the candidate outnumber those in its favour."""
    large = LARGE * scale
    return sum(d <= -large for d in ds) > sum(d >= large for d in ds)
