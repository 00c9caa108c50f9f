"""What requests will wait, by a queue whose server slows down as it fills.

An engine at a cap C works on b = min(n, C) of the n requests that are there, one token each per
step of t(b). A request brings m tokens, so requests leave at μ(n) = b / (m · t(b)). Arrivals at λ:
a birth–death chain, which has a closed form (π(n) ∝ λⁿ / μ(1)…μ(n); beyond C a geometric tail), and
by PASTA an arrival finds n with probability π(n)::

    n < C    starts at the next step
    n ≥ C    waits for n − C + 1 departures:  P(wait > x) = P(n ≥ C) · e^−(μ(C) − λ)x/s
    TTFT     = wait, or what is left of the running step, + its own first step, with its prompt
    TPOT     = t(n + 1), as the request found the engine: load changes slowly beside a request

s = (1 + c²)/2 scales waits to lengths whose squared coefficient of variation c² is not that of
exponential ones (Allen–Cunneen). Attainment is P(TTFT and TPOT within their limits), summed over
what an arrival finds; a request whose load changes meanwhile is counted as it began, so a TPOT
limit in the midst of the TPOTs is predicted a little too low. Where a *backlog* of other work
always fills the free slots, the steps are those of a full engine, and the arrival waits for a slot
to be given back: M/M/1 with slots as the server, at the rate at which the mix gives them back.

>>> curve = StepCurve(
...     base_us=18_100.0, per_decode_us=1290.0, per_prefill_us=0.0, steps=1000, residual=0.0
... )
>>> quiet = predict(curve, cap=16, load=Load(arrivals_per_s=2.0, output_tokens=24.0))
>>> busy = predict(curve, cap=16, load=Load(arrivals_per_s=16.0, output_tokens=24.0))
>>> round(quiet.ttft_ms(0.95)), round(busy.ttft_ms(0.95)), round(busy.utilisation, 2)
(40, 2120, 0.93)
>>> predict(curve, cap=16, load=Load(arrivals_per_s=20.0, output_tokens=24.0)).saturated
True

Load-dependent birth–death queues: Kleinrock, *Queueing Systems* I, 1975, ch. 3; the scaling: Allen,
*Probability, Statistics, and Queueing Theory*, 1978. How often requests wait is taken from
exponential lengths, and arrivals are Poisson: a rate that wanders waits more. Why not M/G/k: its
server has one speed, and here a fuller engine is faster in all and slower for each. Why not
simulate: a prediction for each ladder value at each look has to be cheap, and the same every time.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from controller.plant.step_curve import StepCurve
from signals.errors import Rejected
from signals.settings import Slo

Array = NDArray[np.float64]
MAX_CAP: Final = 4096
"""Of the sums over what an arrival may find."""


class Load(Struct, frozen=True, kw_only=True):
    """What is offered: requests per second, and the mean tokens of each.

    ``output_cv2``: squared coefficient of variation of the output tokens; 1: exponential, 0: equal.
    ``backlog_tokens``: mean output of other work that fills every free slot; None: there is none.
    """

    arrivals_per_s: float
    output_tokens: float
    output_cv2: float = 1.0
    prompt_tokens: float = 0.0
    backlog_tokens: float | None = None


class Prediction(Struct, frozen=True, kw_only=True):
    """What an arrival will see. Times in ms; ``saturated``: more is offered than can be done.

    ``found``: probability of each number of running requests it may join, none to cap − 1, then of
    having to wait; the steps it will see then: ``running_ms`` when it arrives, ``first_ms`` its
    own first, ``step_ms`` the others. A wait lasts longer than x with probability
    e^(−``release_per_s`` x).
    """

    cap: int
    utilisation: float
    found: tuple[float, ...]
    step_ms: tuple[float, ...]
    running_ms: tuple[float, ...]
    first_ms: tuple[float, ...]
    release_per_s: float
    tokens_per_s: float

    @property
    def saturated(self) -> bool:
        """Whether the queue would grow without end."""
        return self.utilisation >= 1.0

    @property
    def waits(self) -> float:
        """Share of the requests that wait for a slot."""
        return self.found[-1]

    def ttft_ms(self, share: float) -> float:
        """The TTFT that this share of the requests stays within; infinite when saturated."""
        if self.saturated:
            return math.inf
        low, high = 0.0, max(self.first_ms) + max(self.running_ms) + 1.0
        while self._within(high, math.inf) < share:
            low, high = high, 2 * high
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._within(middle, math.inf) >= share else (middle, high)
        return high

    def tpot_ms(self, share: float) -> float:
        """The time per output token that this share of the requests stays within."""
        order = np.argsort(self.step_ms, kind="stable")
        reached = np.cumsum(np.array(self.found)[order])
        place = min(int(np.searchsorted(reached, share - 1e-12)), len(order) - 1)
        return float(self.step_ms[int(order[place])])

    def mean_tpot_ms(self) -> float:
        """The mean time per output token over requests."""
        return float(np.dot(self.found, self.step_ms))

    def attainment(self, slo: Slo, *, output_tokens: float = 0.0, factor: float = 1.0) -> float:
        """Share of requests within every limit of ``slo``; 0 when saturated.

        ``factor`` multiplies every time (a correction). ``output_tokens``: of a request, for an
        end-to-end limit.
        """
        if self.saturated:
            return 0.0
        ttft = math.inf if slo.ttft_ms is None else slo.ttft_ms / factor
        tpot = math.inf if slo.tpot_ms is None else slo.tpot_ms / factor
        if slo.e2e_ms is None:
            return self._within(ttft, tpot)
        left = np.array(self.step_ms) * max(0.0, output_tokens - 1.0)
        return self._within(np.minimum(ttft, slo.e2e_ms / factor - left), tpot)

    def _within(self, ttft_ms: float | Array, tpot_ms: float) -> float:
        """P(TTFT and TPOT within these), by what an arrival finds."""
        spare_ms = np.asarray(ttft_ms, dtype=float) - np.array(self.first_ms)
        running_ms = np.maximum(np.array(self.running_ms), 1e-9)
        met = np.clip(spare_ms / running_ms, 0.0, 1.0)
        last_ms = float(spare_ms[-1])
        met[-1] = -math.expm1(-self.release_per_s * last_ms / 1000) if last_ms > 0 else 0.0
        quick = np.array(self.step_ms) <= tpot_ms
        return float(np.sum(np.array(self.found) * met * quick))


def predict(curve: StepCurve, *, cap: int, load: Load) -> Prediction:
    """What requests of this load see at a cap. Raises ``Rejected`` for figures that are none."""
    _check(cap, load)
    rho = load.prompt_tokens / load.output_tokens
    steps_s = np.array([curve.step_us(b, b * rho) for b in range(1, cap + 1)]) / 1e6
    if load.backlog_tokens is not None:
        return _beside_backlog(curve, cap, load, float(steps_s[-1]))
    rates = np.arange(1, cap + 1) / (load.output_tokens * steps_s)
    utilisation = load.arrivals_per_s / float(rates[-1])
    found = _found(load.arrivals_per_s, rates) if utilisation < 1 else np.eye(cap + 1)[-1]
    seen_s = np.append(steps_s, steps_s[-1])
    free = max(0.0, float(rates[-1]) - load.arrivals_per_s)
    return Prediction(
        cap=cap,
        utilisation=utilisation,
        found=_plain(found),
        step_ms=_plain(seen_s * 1000),
        running_ms=_plain(np.append(0.0, steps_s) * 1000),
        first_ms=_plain((seen_s + _extra_s(curve, load, rho)) * 1000),
        release_per_s=free * 2 / (1 + load.output_cv2),
        tokens_per_s=min(load.arrivals_per_s, float(rates[-1])) * load.output_tokens,
    )


def _beside_backlog(curve: StepCurve, cap: int, load: Load, step_s: float) -> Prediction:
    """All slots are always taken: the mix gives back so many a second, arrivals take them first."""
    own = load.arrivals_per_s * load.output_tokens
    most = cap / step_s
    others = max(0.0, most - own) / max(1.0, load.backlog_tokens or 1.0)
    release = others + min(own, most) / load.output_tokens
    first_s = step_s + _extra_s(curve, load, load.prompt_tokens / load.output_tokens)
    return Prediction(
        cap=cap,
        utilisation=own / most,
        found=(1.0,),
        step_ms=(step_s * 1000,),
        running_ms=(step_s * 1000,),
        first_ms=(first_s * 1000,),
        release_per_s=max(0.0, release - load.arrivals_per_s),
        tokens_per_s=most,
    )


def _found(arrivals_per_s: float, rates: Array) -> Array:
    """π(0) … π(C − 1) and P(n ≥ C), in logarithms: the products span hundreds of decades."""
    if arrivals_per_s == 0:
        return np.append(1.0, np.zeros(len(rates)))
    logs = np.append(0.0, np.cumsum(math.log(arrivals_per_s) - np.log(rates)))
    logs[-1] -= math.log1p(-arrivals_per_s / float(rates[-1]))
    shares = np.exp(logs - logs.max())
    total: Array = shares / shares.sum()
    return total


def _extra_s(curve: StepCurve, load: Load, rho: float) -> float:
    """Its own prompt in its first step, beyond the share that every step has."""
    return curve.per_prefill_us * max(0.0, load.prompt_tokens - rho) / 1e6


def _plain(values: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _check(cap: int, load: Load) -> None:
    if not 1 <= cap <= MAX_CAP:
        raise Rejected("no cap", field="cap", value=cap, allowed=f"1..{MAX_CAP}")
    for name in ("arrivals_per_s", "prompt_tokens", "output_cv2"):
        value = getattr(load, name)
        if not 0 <= value < math.inf:
            raise Rejected("no load", field=name, value=value, allowed="0 or more")
    if not 1 <= load.output_tokens < math.inf:
        raise Rejected(
            "no load", field="output_tokens", value=load.output_tokens, allowed="1 or more"
        )
