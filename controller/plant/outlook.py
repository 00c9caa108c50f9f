"""What U a setting of the cap would earn, as the plant model sees it: the learner's prior.

U has two halves (``judge.values``): the rate of the maximised intent over its reference, while work
of it waits, and the mean over intents of min(1, attainment ÷ target). Both depend on the cap that
is in force while interactive requests are there, a share s of the seconds, and on the other one::

    U(cap, other) = ½·min(1, (s·R(cap) + (1 − s)·R(other)) / reference)  +  ½·mean of the intents'
    R(b)          = tokens per second of a full engine at b, less what interactive requests take

A setpoint has one value for both, a law has two. Interactive requests meet ``cap`` alone, all
others meet both, s to 1 − s. Attainment is the queue's (``queueing``), averaged over what is not
known of the step times: the residual's deviation, at three points of a normal one. So a cap close
to a limit is expected to meet it as often as it may, neither surely nor never.

>>> from controller.plant.queueing import Load
>>> from signals.settings import Slo
>>> curve = StepCurve(
...     base_us=25_000.0, per_decode_us=500.0, per_prefill_us=0.0, steps=1000, residual=0.0
... )
>>> chats = Offer(name="live", slo=Slo(ttft_ms=2000, tpot_ms=38, attainment=0.97), load=Load(
...     arrivals_per_s=3.0, output_tokens=32.0, backlog_tokens=250.0))
>>> outlook = Outlook(curve=curve, rho=0.0, residual=Residual(ladder=(8, 16, 64)), share=0.5,
...     interactive=(chats,), others=(), reference_tokens_per_s=1123.0)
>>> [round(outlook.utility(cap, cap), 2) for cap in (8, 16, 64)]
[0.51, 0.71, 0.5]
>>> [round(outlook.utility(cap, 64), 2) for cap in (8, 16)]
[0.7, 0.85]

Why not simulate the next hour: a menu of twenty settings would take minutes, and could not be
drawn again later to the bit from a handful of figures.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from controller.plant.feasible import Offer, slower
from controller.plant.queueing import predict
from controller.plant.residual import Residual
from controller.plant.step_curve import StepCurve

NODES: Final = ((-math.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (math.sqrt(3.0), 1 / 6))
"""Gauss–Hermite: exact for polynomials of degree five under a normal deviation."""


class Outlook(Struct, frozen=True, kw_only=True):
    """The load, the engine and what U asks for, as known at one moment.

    ``rho``: prompt tokens computed per token decoded. ``share``: of the seconds with interactive
    requests. ``interactive`` and ``others``: offers as they are while requests of the kind arrive.
    ``own_tokens_per_s``: what interactive requests take then. ``backlog``: work of the maximised
    intent waits, so that the rate counts; else it has all it asks for.
    """

    curve: StepCurve
    rho: float
    residual: Residual
    share: float
    interactive: tuple[Offer, ...]
    others: tuple[Offer, ...]
    reference_tokens_per_s: float
    own_tokens_per_s: float = 0.0
    backlog: bool = True

    def utility(self, cap: int, other: int) -> float:
        """Expected U, 0 to 1, of ``cap`` while interactive requests are there, else ``other``."""
        met = [self._met(offer, cap) for offer in self.interactive]
        for offer in self.others:
            there, away = self._met(offer, cap), self._met(offer, other)
            met.append(self.share * there + (1 - self.share) * away)
        attained = sum(met) / len(met) if met else 1.0
        return 0.5 * self._rate(cap, other) + 0.5 * attained

    def attainment(self, offer: Offer, cap: int) -> float:
        """Expected share of an offer's requests within its limits at a cap."""
        return _attainment(self.curve, self.residual, offer, cap)

    def _met(self, offer: Offer, cap: int) -> float:
        return min(1.0, self.attainment(offer, cap) / offer.slo.attainment)

    def _rate(self, cap: int, other: int) -> float:
        if not self.backlog or self.reference_tokens_per_s <= 0:
            return 1.0
        there = max(0.0, self._tokens_per_s(cap) - self.own_tokens_per_s)
        rate = self.share * there + (1 - self.share) * self._tokens_per_s(other)
        return min(1.0, rate / self.reference_tokens_per_s)

    def _tokens_per_s(self, cap: int) -> float:
        return self.curve.tokens_per_s(cap, self.rho) / self.residual.at(cap).factor


def _attainment(curve: StepCurve, residual: Residual, offer: Offer, cap: int) -> float:
    found, total = residual.at(cap), 0.0
    for node, weight in NODES:
        predicted = predict(slower(curve, found.worst(node)), cap=cap, load=offer.load)
        total += weight * predicted.attainment(offer.slo, output_tokens=offer.load.output_tokens)
    return total
