"""A bet on the coin: evidence that acting at once, and acting later, do not end alike.

Idea. An emergency can't be tried by switchback: it acts when things are bad, and things that are
bad get better by themselves. So a coin says, with a known probability p, that this time the rule
acts some seconds later; an episode is a coin and how it ended, y in [0, 1]. If the delay makes no
difference, the coin is independent of y, whatever the load did: nobody can tell from y how it fell.
Whoever bets on the coin after he has seen y gains nothing on average then::

    Z = 1 with probability p (delayed), else 0;   x = y − mean of the outcomes before
    pays  exp(λ x Z) / (1 − p + p·exp(λ x)),      whose mean over Z is 1 for every x

The product over episodes is a non-negative martingale that starts at 1 and reaches 1/α with
probability at most α (Ville): at any episode, whatever the autocorrelation of the load, and also
where p was another one each time. λ > 0 bets that delayed episodes end better (the act does harm),
λ < 0 that prompt ones do (it helps); each is the mean over λ = ±g/s for g in ``GRID``.

With p = 1/2 and centred Z this is the sign process of ``eprocess``. p is small because waiting
costs those who wait; a delayed episode pays up to 1/p, a prompt one at most 1/(1 − p).

>>> bets = Bets()
>>> for n in range(40):
...     bets = bets.after(outcome=0.5 if n % 5 else 0.9, delayed=n % 5 == 0, p=0.2, scale=0.1)
>>> bets.harmed > 100, bets.improved < 1
(True, True)
>>> bets.prompt.mean, round(bets.delayed.mean, 2)
(0.5, 0.9)

Why not before against after: an emergency acts at the worst moment, so after it is better, always.
Why not compare the two kinds by a t-test: it may be looked at once only, and y are not independent.

Reference: B. Duan, A. Ramdas, L. Wasserman, "Interactive rank testing by betting", Proceedings of
Causal Learning and Reasoning (2022): bets on a treatment's assignment, given the outcome.
"""

from __future__ import annotations

import math
from typing import Final, Self

import msgspec
from msgspec import Struct

from signals.errors import Rejected

GRID: Final = (0.5, 1.0, 2.0, 4.0)
"""λ·s."""
LARGEST_LOG: Final = 700.0


class Kind(Struct, frozen=True, kw_only=True):
    """Episodes of one kind: how many, and the sum of their outcomes."""

    n: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        """Mean outcome; 0 without any."""
        return self.total / self.n if self.n else 0.0

    def after(self, outcome: float) -> Self:
        """With one more."""
        return msgspec.structs.replace(self, n=self.n + 1, total=self.total + outcome)


class Bets(Struct, frozen=True, kw_only=True):
    """The capital so far: its log for each λ, of both directions; and the two kinds' means."""

    harm: tuple[float, ...] = (0.0,) * len(GRID)
    help: tuple[float, ...] = (0.0,) * len(GRID)
    prompt: Kind = Kind()
    delayed: Kind = Kind()

    @property
    def n(self) -> int:
        """Episodes."""
        return self.prompt.n + self.delayed.n

    @property
    def harmed(self) -> float:
        """E against "no difference" in favour of: delayed episodes end better."""
        return _mean_exp(self.harm)

    @property
    def improved(self) -> float:
        """E in favour of: prompt ones do."""
        return _mean_exp(self.help)

    def after(self, *, outcome: float, delayed: bool, p: float, scale: float) -> Self:
        """After one more episode. ``p``: the probability that it was delayed, 0 < p < 1.

        ``scale``: s, a difference that is worth noticing. Raises Rejected for an outcome that is
        not in [0, 1], and for a coin that is none.
        """
        if not 0.0 <= outcome <= 1.0:
            raise Rejected(f"outcome: {outcome!r} is not in [0, 1]", field="outcome", value=outcome)
        if not 0.0 < p < 1.0:
            raise Rejected(f"p: {p!r} is no coin", field="p", value=p)
        x = outcome - (self.prompt.total + self.delayed.total) / self.n if self.n else 0.0
        bets = tuple(g / scale * x for g in GRID)
        kind = self.delayed if delayed else self.prompt
        return msgspec.structs.replace(
            self,
            harm=_paid(self.harm, bets, delayed, p),
            help=_paid(self.help, tuple(-bet for bet in bets), delayed, p),
            **{"delayed" if delayed else "prompt": kind.after(outcome)},
        )


def _paid(
    logs: tuple[float, ...], bets: tuple[float, ...], delayed: bool, p: float
) -> tuple[float, ...]:
    return tuple(
        log + (bet if delayed else 0.0) - _log_add(math.log1p(-p), math.log(p) + bet)
        for log, bet in zip(logs, bets, strict=True)
    )


def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def _mean_exp(logs: tuple[float, ...]) -> float:
    return math.fsum(math.exp(min(LARGEST_LOG, log)) for log in logs) / len(logs)
