"""ServeGen's published workload of one client over 14 days, as arrivals.

Rates: one row per 10 minutes, ``from_s,per_s,cv,family,shape,scale`` without a header. Gaps between
arrivals are independent draws of the family (Gamma or Weibull) with that shape; their mean is made
1 / per_s, whatever the fitted scale says (it fits the Gamma rows; at the Weibull rows' median it
would make the gaps 1.3 times as long). Each window is a stationary renewal process: its first gap
is a uniform part of a length-biased one, so that the expected count is per_s · 600 exactly, however
bursty::

    Gamma(k, θ), length-biased:    Gamma(k + 1, θ)
    Weibull(k, λ), length-biased:  λ · Gamma(1 + 1/k)^(1/k)

Lengths: JSON, from the window's first second (every 6 hours) to two texts of ``{tokens: share}``.

Why not one process run through all windows: after a lull the last long gap would swallow the
beginning of the next window, and burstiness would lower the rate.

Source: ServeGen, Alibaba Cloud Model Studio traces (Apache-2.0).
"""

from __future__ import annotations

import ast
import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import gamma
from typing import Literal

import numpy as np
from msgspec import Struct

from engine.simulated.arrivals.bounds import MOST_PER_S, within
from engine.simulated.arrivals.kinds import Assign
from engine.simulated.arrivals.lengths import Observed
from engine.simulated.arrivals.rows import columns, real, refused
from engine.simulated.offered import Arrivals, Offered
from signals.errors import Rejected

WINDOW_S = 600.0
COLUMNS = ("from_s", "per_s", "cv", "family", "shape", "scale")
Family = Literal["Gamma", "Weibull"]


class Rate(Struct, frozen=True):
    """Ten minutes of one client; family and shape are None when nothing arrives."""

    from_s: float
    per_s: float
    family: Family | None
    shape: float


class Span(Struct, frozen=True):
    """Lengths from a second on, until the next span."""

    from_s: float
    lengths: Observed


def read_rates(rows: Iterable[str]) -> tuple[Rate, ...]:
    """The rates of an opened table, by time. Raises Rejected at the first row it cannot read."""
    rates: list[Rate] = []
    for line, row in enumerate(rows, 1):
        from_s, per_s, _, family, shape, _ = columns(row, COLUMNS, line=line)
        at_s = real(from_s, line=line, field="from_s")
        rate = real(per_s, line=line, field="per_s")
        if rates and at_s <= rates[-1].from_s:
            raise refused(line, "from_s", from_s, "after the row above")
        if rate == 0.0:
            rates.append(Rate(at_s, 0.0, None, 1.0))
            continue
        k = real(shape, line=line, field="shape")
        if k == 0.0:
            raise refused(line, "shape", shape, "above 0")
        rates.append(Rate(at_s, rate, _family(family, line), k))
    return tuple(rates)


def read_lengths(text: str) -> tuple[Span, ...]:
    """The length distributions of a whole document, by time; windows without requests left out."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise refused(error.lineno, "document", error.msg, "a JSON object") from None
    found = [
        Span(float(from_s), Observed(*tables))
        for from_s, window in document.items()
        if all(tables := [_weights(from_s, window, of) for of in ("input_tokens", "output_tokens")])
    ]
    if not found:
        raise Rejected("lengths: no window has requests", field="lengths", value=len(document))
    return tuple(sorted(found, key=lambda span: span.from_s))


def workload(
    rates: Sequence[Rate],
    spans: Sequence[Span],
    assign: Assign,
    rng: np.random.Generator,
    *,
    from_s: float = 0.0,
    to_s: float = float("inf"),
    rate_scale: float = 1.0,
) -> Arrivals:
    """Requests of the windows that begin in [from, to), counted from the first of them.

    ``rate_scale`` multiplies every rate and keeps the burstiness (the gaps' CV).
    """
    within("rate_scale", rate_scale, 0.0, MOST_PER_S)
    chosen = [rate for rate in rates if from_s <= rate.from_s < to_s]
    if not chosen:
        detail = f"from_s {from_s!r}: no window begins from there to {to_s!r}"
        raise Rejected(detail, field="from_s", value=from_s)
    starts = [span.from_s for span in spans]
    for rate in chosen:
        moments_s = _moments_s(rate, rate_scale, rng)
        span = spans[max(0, bisect_right(starts, rate.from_s) - 1)]
        began_s = rate.from_s - chosen[0].from_s
        drawn = span.lengths.draw(rng, len(moments_s))
        for moment_s, (prompt, output) in zip(moments_s, drawn, strict=True):
            kind = assign(prompt, output)
            yield Offered(
                arrival_s=began_s + moment_s,
                intent=kind.intent,
                class_=kind.class_,
                prompt_tokens=prompt,
                output_tokens=output,
            )


def _moments_s(rate: Rate, scale: float, rng: np.random.Generator) -> list[float]:
    """Moments of arrival in [0, WINDOW_S) of a stationary renewal process."""
    per_s = rate.per_s * scale
    if per_s <= 0.0:
        return []
    found: list[float] = []
    at_s = float(rng.random()) * _biased_gap(rate, rng) / per_s
    several = 16 + int(per_s * WINDOW_S)
    while at_s < WINDOW_S:
        gaps_s = _gaps(rate, several, rng) / per_s
        *moments_s, at_s = (at_s + np.concatenate(([0.0], np.cumsum(gaps_s)))).tolist()
        found += [moment_s for moment_s in moments_s if moment_s < WINDOW_S]
    return found


def _gaps(rate: Rate, count: int, rng: np.random.Generator) -> np.ndarray:
    """Gaps of mean 1."""
    k = rate.shape
    if rate.family == "Gamma":
        return rng.gamma(k, 1 / k, count)
    return rng.weibull(k, count) / gamma(1 + 1 / k)


def _biased_gap(rate: Rate, rng: np.random.Generator) -> float:
    """The gap that a random moment falls into, where gaps have mean 1."""
    k = rate.shape
    if rate.family == "Gamma":
        return float(rng.gamma(k + 1, 1 / k))
    return float(rng.gamma(1 + 1 / k) ** (1 / k) / gamma(1 + 1 / k))


def _family(text: str, line: int) -> Family:
    if text == "Gamma":
        return "Gamma"
    if text == "Weibull":
        return "Weibull"
    raise refused(line, "family", text, "Gamma or Weibull")


def _weights(from_s: str, window: object, of: str) -> dict[int, float]:
    text = window.get(of) if isinstance(window, dict) else None
    try:
        weights = ast.literal_eval(text) if isinstance(text, str) else None
    except (ValueError, SyntaxError):
        weights = None
    if not isinstance(weights, dict):
        allowed = "a text of {tokens: share}"
        detail = f"window {from_s}: {of} {str(text)[:40]!r}: {allowed}"
        raise Rejected(detail, field=of, value=str(text)[:40], allowed=allowed)
    return weights
