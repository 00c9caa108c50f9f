"""Which form the step curve has: a straight line in the batch, or one in its logarithm.

::

    line   t = base + c·b            + p·f
    log    t = base·(1 + k·log₂ b)   + p·f

The first is what CPUs do, the second is often quoted for GPUs. Both have three coefficients that
are not negative; both are fitted to one point a second, the mean batch, prefill and time of its
steps (a logarithm can't be had from sums), and to the points measured at boot, scaled to the speed
seen now, which together weigh ``prior_share`` of the steps seen. Residuals are relative, and
Huber's weights (k = 1.345 robust deviations) keep a second in which the machine was away from
bending the curve. The error of a form is that of points which it was not fitted on::

    mean over steps of |t̂ − t| / t,   five folds, every fifth point by batch size

The form with the lower one is kept, the line on a tie, and both errors are shown. A line is then
fitted to the exact sums (``step_curve``) of all seconds but the stalled ones.

>>> def second(b, us):
...     return StepMoments(n=20, b=20*b, t=20*us, bb=20*b*b, bt=20*b*us, tt=20*us*us)
>>> seen = [second(b, round(10_000 * (1 + 0.5 * math.log2(b)))) for b in (2, 4, 8, 16, 32) * 10]
>>> found = choose(seen, (), prior_share=0.1, min_points=30)
>>> found.words()
'10.0 ms × (1 + 0.50·log2 of the sequences) + 0.00 ms a prompt token'
>>> found.line_error > 0.05 > 0.001 > found.log_error
True

Huber, *Robust Estimation of a Location Parameter*, 1964; non-negative least squares: Lawson and
Hanson. Why not the residuals of the fit itself: they flatter the form that bends to its noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.optimize import nnls

from controller.plant.step_curve import BootPoint, Form, StepCurve, fit
from signals.events import StepMoments

Array = NDArray[np.float64]

FORMS: Final[tuple[Form, ...]] = ("line", "log")
FOLDS: Final = 5
ROUNDS: Final = 5
"""Of reweighting; Huber's weights hardly move after three."""
HUBER: Final = 1.345
STALLED: Final = (5.0, 0.25)
"""A second so many robust deviations and so large a share away from its curve is left out."""


class _Points(Struct, frozen=True):
    """Mean batch, prefill and time (µs) of each point, and the steps that it stands for."""

    b: Array
    f: Array
    t: Array
    steps: Array

    def taken(self, which: NDArray[np.bool_]) -> _Points:
        """Some of them."""
        return _Points(self.b[which], self.f[which], self.t[which], self.steps[which])


def choose(
    seconds: Sequence[StepMoments],
    boot: Sequence[BootPoint],
    *,
    prior_share: float,
    min_points: int,
) -> StepCurve | str:
    """The curve in the better form with both errors, or why there is none.

    From fewer than ``min_points`` seconds with steps it is a line, and no form is compared.
    """
    seen = [second for second in seconds if second.n > 0]
    if len(seen) < min_points:
        return fit(_sum(seen), boot, prior_share=prior_share)
    live = _of_seconds(seen)
    errors = {form: _error(form, live, boot, prior_share) for form in FORMS}
    form: Form = "log" if errors["log"] < errors["line"] else "line"
    x = _fitted(form, _with_boot(form, live, boot, prior_share))
    off = live.t - _predicted(form, x, live)
    stalled = _stalled(off / live.t)
    kept = _sum([one for one, left in zip(seen, stalled, strict=True) if not left])
    curve = fit(kept, boot, prior_share=prior_share)
    if form == "log" and not isinstance(curve, str):
        used = live.taken(~stalled)
        curve = _log_curve(x, used, off[~stalled], steps=kept.n)
    if isinstance(curve, str):
        return curve
    return msgspec.structs.replace(
        curve, line_error=errors["line"], log_error=errors["log"], left_out=int(stalled.sum())
    )


def _of_seconds(seen: Sequence[StepMoments]) -> _Points:
    n = np.array([float(one.n) for one in seen])
    b, f, t = (
        np.array([float(getattr(one, name)) for one in seen]) / n for name in ("b", "f", "t")
    )
    return _Points(b, f, t, n)


def _with_boot(form: Form, live: _Points, boot: Sequence[BootPoint], prior_share: float) -> _Points:
    """The seconds and the boot points, these at the speed seen now and at the prior's weight."""
    if not boot:
        return live
    b, f, t = (np.array(column, dtype=float) for column in zip(*boot, strict=True))
    prior = _Points(b, f, t, np.ones(len(boot)))
    shape = _predicted(form, _solved(form, prior, np.ones(len(boot))), live)
    speed = float(np.median(live.t / np.maximum(shape, 1e-9)))
    weight = max(1.0, prior_share * float(live.steps.sum()) / len(boot))
    return _Points(
        np.append(live.b, b),
        np.append(live.f, f),
        np.append(live.t, speed * t),
        np.append(live.steps, weight * prior.steps),
    )


def _error(form: Form, live: _Points, boot: Sequence[BootPoint], prior_share: float) -> float:
    """Cross-validated mean relative error, every step counting once."""
    points = _with_boot(form, live, boot, prior_share)
    order = np.lexsort((points.t, points.f, points.b))
    fold = np.empty(len(order), dtype=int)
    fold[order] = np.arange(len(order)) % FOLDS
    off = np.empty(len(order))
    for held in range(FOLDS):
        x = _fitted(form, points.taken(fold != held))
        left = points.taken(fold == held)
        off[fold == held] = np.abs(_predicted(form, x, left) - left.t) / left.t
    return float(np.average(off, weights=points.steps))


def _fitted(form: Form, points: _Points) -> Array:
    """The coefficients, with Huber's weights."""
    weights = np.ones(len(points.t))
    x = _solved(form, points, weights)
    for _ in range(ROUNDS):
        off = np.abs(1.0 - _predicted(form, x, points) / points.t)
        scale = max(1e-4, 1.4826 * float(np.median(off)))
        weights = np.minimum(1.0, HUBER * scale / np.maximum(off, 1e-12))
        x = _solved(form, points, weights)
    return x


def _solved(form: Form, points: _Points, weights: Array) -> Array:
    """Non-negative least squares on relative residuals."""
    root = np.sqrt(weights * points.steps) / points.t
    rows = _regressors(form, points) * root[:, None]
    size = np.maximum(np.sqrt(np.sum(rows * rows, axis=0)), 1e-12)
    found, _ = nnls(rows / size, points.t * root)
    return np.asarray(found / size)


def _regressors(form: Form, points: _Points) -> Array:
    batch = points.b if form == "line" else np.log2(np.maximum(points.b, 1.0))
    return np.column_stack([np.ones(len(batch)), batch, points.f])


def _predicted(form: Form, x: Array, points: _Points) -> Array:
    return np.asarray(_regressors(form, points) @ x)


def _stalled(off: Array) -> NDArray[np.bool_]:
    deviations, share = STALLED
    scale = max(1e-4, 1.4826 * float(np.median(np.abs(off))))
    return np.asarray(np.abs(off) > max(deviations * scale, share))


def _log_curve(x: Array, used: _Points, off: Array, *, steps: int) -> StepCurve:
    squares = float(np.average(off**2, weights=used.steps))
    return StepCurve(
        base_us=float(x[0]),
        per_decode_us=float(x[1]),
        per_prefill_us=float(x[2]),
        steps=steps,
        residual=math.sqrt(squares) / float(np.average(used.t, weights=used.steps)),
        form="log",
    )


def _sum(seconds: Sequence[StepMoments]) -> StepMoments:
    names = StepMoments.__struct_fields__
    return StepMoments(**{name: sum(getattr(one, name) for one in seconds) for name in names})
