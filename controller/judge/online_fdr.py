"""LORD++: how sure each trial of a stream must be, so that few of the kept ones are kept in vain.

Idea. Trials come one after the other and nobody knows how many there will be. A level is money:
each trial pays its own, a kept change earns some back, and the account is never overdrawn. So of
all that is kept, at most the share α is expected to be kept by chance alone (the false discovery
rate), at any time, however long the stream. Where nothing can be improved that is also the
probability that anything at all is kept.

Formula. Trial t, the i-th kept one being trial τ_i, with γ_j = j^-1.6 / ζ(1.6), which sums to 1,
and W₀ = α/2::

    α_t = γ_t W₀ + γ_(t−τ₁) (α − W₀) + Σ over i ≥ 2 of γ_(t−τ_i) α        (terms with τ_i < t only)

>>> [round(level(0.05, begun=n, kept=()), 5) for n in (0, 1, 9, 17)]     # nothing is ever kept
[0.01094, 0.00361, 0.00027, 0.00011]
>>> [round(level(0.05, begun=n, kept=tuple(range(1, n + 1))), 3) for n in (1, 2, 3)]    # all are
[0.015, 0.027, 0.032]

The test itself is the judge's e-process with threshold 1/α_t, frozen before the first block. Its
coins are fresh in each trial, so that under "no effect" E reaches 1/α_t with probability ≤ α_t
given everything before: what the proof asks for. Strictly it then bounds the expected number of
false keeps over that of keeps (mFDR), whatever the trials have to do with each other, and the rate
itself where what comes later does not hang on them. A level may be used in part (the judge never
takes more than its own α): what is not spent only makes the account richer.

Reference: A. Ramdas, F. Yang, M. Wainwright, M. Jordan, "Online control of the false discovery rate
with decaying memory", NeurIPS 2017 (LORD++); γ of A. Ramdas, T. Zrnic, M. Wainwright, M. Jordan,
"SAFFRON", ICML 2018.

Why not SAFFRON: it saves where p-values above ½ show that most trials are hopeless; ours would be
1/sup E, and a trial that a guard, a trip or a person ended has none. Why not e-LOND, which asks
nothing of how trials depend on each other: its levels fall with the number of the trial, and a kept
change only scales them; in a long life it dares nothing. Why not a fixed level and a fixed number
of trials a day: that is the other budget, ``per_day``, which a good day uses up by noon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scipy.special import zeta

EXPONENT: Final = 1.6
TOTAL: Final = float(zeta(EXPONENT))
FIRST_SHARE: Final = 0.5
"""W₀ ÷ α: what a stream begins with; the other half comes with the first kept change."""


def level(alpha: float, *, begun: int, kept: Sequence[int]) -> float:
    """The level of the next trial. ``kept``: which trials were, counted from 1, rising.

    ``begun``: how many trials the stream has had. ``alpha``: the rate to hold, in (0, 1).
    """
    t = begun + 1
    first = FIRST_SHARE * alpha
    earned = [alpha - first, *[alpha] * len(kept)]
    return _share(t) * first + sum(
        _share(t - at) * pay for at, pay in zip(kept, earned, strict=False)
    )


def barren(alpha: float, *, least: float) -> int:
    """How many trials in a row a fresh stream affords, none of them kept, at ``least`` each.

    >>> barren(0.05, least=1e-4)
    18
    """
    count = 0
    while level(alpha, begun=count, kept=()) >= least:
        count += 1
    return count


def _share(j: int) -> float:
    """γ_j: what of a payment is spent j trials later."""
    return float(j**-EXPONENT) / TOTAL
