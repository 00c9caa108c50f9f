"""How long one step of a simulated engine takes.

The idea: a step reads the weights once, does a row of work for every decoding sequence and every
prompt token, and reads the context that those sequences already have::

    t = base + per_decode * b + per_prefill * f + per_context * kv        (µs)

with b decoding sequences, f prompt tokens computed in the step, and kv tokens of context that the
sequences of the step had before it. Noise, where asked for, multiplies by a lognormal of mean one.

>>> times = StepTimes(base_us=10_000, per_decode_us=100, per_prefill_us=20, per_context_us=0.1)
>>> times.step_us(decode=8, prefill=0, context=4000)
11200.0
>>> times.slowed(2).step_us(decode=0, prefill=500, context=0)
40000.0

Why not a table of measured steps: four numbers can be fitted from ``StepMoments`` and told to
somebody, and beyond the measured range a line errs less than a table's edge. Source of the form:
the same linear model is fitted by the plant (``controller/plant/step_curve.py``).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

NOISE_DRAWS = 4096


class StepTimes(Struct, frozen=True, kw_only=True):
    """Costs in µs. ``noise_sd``: standard deviation of the noise's logarithm; 0 = none."""

    base_us: float
    per_decode_us: float
    per_prefill_us: float
    per_context_us: float = 0.0
    noise_sd: float = 0.0

    def step_us(self, *, decode: int, prefill: int, context: int) -> float:
        """A step's mean time."""
        return (
            self.base_us
            + self.per_decode_us * decode
            + self.per_prefill_us * prefill
            + self.per_context_us * context
        )

    def slowed(self, factor: float) -> StepTimes:
        """The same engine, every step taking ``factor`` times as long."""
        return replace(
            self,
            base_us=self.base_us * factor,
            per_decode_us=self.per_decode_us * factor,
            per_prefill_us=self.per_prefill_us * factor,
            per_context_us=self.per_context_us * factor,
        )


class Noise:
    """Factors of mean one, a batch of ``NOISE_DRAWS`` at a time; the same ones for a seed."""

    def __init__(self, sd: float, rng: np.random.Generator) -> None:
        self._sd = sd
        self._rng = rng
        self._ones = [1.0] * NOISE_DRAWS

    def draw(self) -> list[float]:
        """The next batch. Without noise: ones."""
        if self._sd == 0:
            return self._ones
        drawn: list[float] = self._rng.lognormal(-(self._sd**2) / 2, self._sd, NOISE_DRAWS).tolist()
        return drawn
