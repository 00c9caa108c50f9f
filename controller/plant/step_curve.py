"""The step-time curve of an engine, fitted on line: t = base + c·b + p·f.

b decoding sequences, f prompt tokens computed in the same step. Least squares with no negative
coefficient, straight from the integer sums that the engine reports each second, so no step has to
be kept and the order of arrival does not matter.

Few batch sizes are seen in practice (a full engine always runs at its cap), and then base and c
can't be told apart. So the curve measured at boot takes part as a prior: scaled by one factor to
the speed seen now, its points count as a share of the steps. Where steps were seen they decide,
elsewhere the boot curve's shape does.

>>> curve = fit(StepMoments(), ((1, 0, 20_000), (8, 0, 30_000), (1, 128, 110_000)), prior_share=0.1)
>>> curve.words()
'18.6 ms + 1.4 ms a sequence + 0.70 ms a prompt token'
>>> slow = StepMoments(n=100, b=800, bb=6400, t=6_000_000, bt=48_000_000, tt=360_000_000_000)
>>> curve = fit(slow, ((1, 0, 20_000), (8, 0, 30_000), (1, 128, 110_000)), prior_share=0.1)
>>> round(curve.step_us(8, 0.0)), round(curve.step_us(1, 0.0))
(60000, 40000)

``base·(1 + k·log2 b)``, often quoted for GPUs, can't be fitted from such sums: ``step_forms`` does
it from one point a second, and keeps the better of the two. Non-negativity by trying every subset
of three coefficients: seven small systems, exact, nothing to converge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from signals.events import StepMoments

Array = NDArray[np.float64]
BootPoint = tuple[int, int, int]
"""(decode sequences, prefill tokens, step µs), measured when the engine started."""

Form = Literal["line", "log"]

MAX_CONDITION: Final = 1e10
SUBSETS: Final = ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [1], [2])


class StepCurve(Struct, frozen=True, kw_only=True):
    """t(b, f) = base + per_decode·b + per_prefill·f, all in µs; none is negative.

    In the ``log`` form ``per_decode_us`` is the cost of a doubling: it multiplies log₂ b.
    ``steps`` were seen since the boot curve; ``residual`` is the root mean square of what the
    curve leaves unexplained of them, over their mean (of the boot points when no step was seen).
    ``line_error`` and ``log_error``: cross-validated relative errors of both forms (None: they were
    not compared); ``left_out``: seconds that stalled and were not fitted on.
    """

    base_us: float
    per_decode_us: float
    per_prefill_us: float
    steps: int
    residual: float
    form: Form = "line"
    line_error: float | None = None
    log_error: float | None = None
    left_out: int = 0

    def step_us(self, decode: float, prefill: float) -> float:
        """Predicted length of a step."""
        batch = decode if self.form == "line" else math.log2(max(decode, 1.0))
        return self.base_us + self.per_decode_us * batch + self.per_prefill_us * prefill

    def tpot_ms(self, cap: int, prefill_per_decode: float) -> float:
        """Mean time per output token of ``cap`` sequences that bring so much prefill along."""
        return self.step_us(cap, cap * prefill_per_decode) / 1000

    def tokens_per_s(self, cap: int, prefill_per_decode: float) -> float:
        """Output tokens per second of ``cap`` sequences that always have work."""
        return cap / (self.tpot_ms(cap, prefill_per_decode) / 1000)

    def words(self) -> str:
        """The curve as an operator reads it."""
        base, decode, prefill = (
            value / 1000 for value in (self.base_us, self.per_decode_us, self.per_prefill_us)
        )
        if self.form == "log":
            k = decode / base if base else 0.0
            grows = f"{base:.1f} ms × (1 + {k:.2f}·log2 of the sequences)"
            return f"{grows} + {prefill:.2f} ms a prompt token"
        return f"{base:.1f} ms + {decode:.1f} ms a sequence + {prefill:.2f} ms a prompt token"


class _Sums(Struct, frozen=True):
    """Normal equations: ``a`` 3 × 3, ``y`` 3, and the sum of t²."""

    a: Array
    y: Array
    tt: float

    def plus(self, other: _Sums, weight: float) -> _Sums:
        """These and ``weight`` times the others."""
        return _Sums(
            self.a + weight * other.a, self.y + weight * other.y, self.tt + weight * other.tt
        )

    def unexplained(self, x: Array) -> float:
        """Sum of squared residuals of a curve."""
        return max(0.0, float(self.tt - 2 * x @ self.y + x @ self.a @ x))


def fit(moments: StepMoments, boot: Sequence[BootPoint], *, prior_share: float) -> StepCurve | str:
    """The curve, or why there is none.

    ``prior_share``: the boot points together weigh as much as this share of the steps seen, and
    never less than one step each.
    """
    live, prior = _of_moments(moments), _of_points(boot)
    if moments.n == 0 and not boot:
        return "no step was seen and no curve was measured at boot"
    if not boot and _one_batch_size(moments):
        return "steps of one batch size only, and no curve measured at boot"
    if moments.n == 0:
        return _curve(_solve(prior), prior, len(boot), steps=0)
    total = live
    if boot:
        shape = _solve(prior)
        expected_us = float(shape @ live.a[0])
        speed = moments.t / expected_us if expected_us > 0 else 1.0
        total = live.plus(_scaled(prior, speed), max(1.0, prior_share * moments.n / len(boot)))
    return _curve(_solve(total), live, moments.n, steps=moments.n)


def _of_moments(m: StepMoments) -> _Sums:
    a = np.array([[m.n, m.b, m.f], [m.b, m.bb, m.bf], [m.f, m.bf, m.ff]], dtype=float)
    return _Sums(a, np.array([m.t, m.bt, m.ft], dtype=float), float(m.tt))


def _of_points(points: Sequence[BootPoint]) -> _Sums:
    """Points weighed by 1/t², for their errors are relative; the weights average one."""
    rows = np.array([[1.0, decode, prefill] for decode, prefill, _ in points]).reshape(-1, 3)
    times = np.array([float(step_us) for _, _, step_us in points])
    weights = times**-2 * (len(points) / np.sum(times**-2)) if len(points) else times
    weighted = rows * weights[:, None]
    return _Sums(weighted.T @ rows, weighted.T @ times, float(weights @ times**2))


def _scaled(sums: _Sums, factor: float) -> _Sums:
    """The same points with every time multiplied."""
    return _Sums(sums.a, factor * sums.y, factor * factor * sums.tt)


def _one_batch_size(m: StepMoments) -> bool:
    return m.n * m.bb - m.b * m.b <= 1e-9 * m.n * m.bb


def _solve(sums: _Sums) -> Array:
    """The non-negative coefficients that explain most."""
    found = [x for subset in SUBSETS if (x := _solve_subset(sums, subset)) is not None]
    return min(found, key=sums.unexplained)


def _solve_subset(sums: _Sums, subset: list[int]) -> Array | None:
    """Least squares with the other coefficients at zero; None when singular or negative."""
    a = sums.a[np.ix_(subset, subset)]
    size = np.sqrt(np.diag(a))
    if np.any(size <= 0):
        return None
    scaled = a / np.outer(size, size)
    if np.linalg.cond(scaled) > MAX_CONDITION:
        return None
    part = np.linalg.solve(scaled, sums.y[subset] / size) / size
    if np.any(part < 0):
        return None
    x = np.zeros(3)
    x[subset] = part
    return x


def _curve(x: Array, sums: _Sums, n: int, *, steps: int) -> StepCurve:
    base, decode, prefill = (float(value) for value in x)
    mean = float(sums.y[0]) / n
    return StepCurve(
        base_us=base,
        per_decode_us=decode,
        per_prefill_us=prefill,
        steps=steps,
        residual=math.sqrt(sums.unexplained(x) / n) / mean if mean > 0 else 0.0,
    )
