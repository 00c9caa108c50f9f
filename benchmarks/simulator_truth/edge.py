"""How much of an error in step times a queue makes: the median TTFT at steps a little off.

Below saturation a request waits for little else than its own steps, and its TTFT is off by what
they are off. On the flank of a burst the queue is the difference of two large numbers, what came
and what was served, and the same error is amplified::

    amplification = d ln(median TTFT) / d ln(step time)

taken between the outermost factors. A median that misses by the amplification times the error of
the TPOTs of the same run is no other fault than theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.simulator_truth.measured import Request
from benchmarks.simulator_truth.refining import Calibration
from benchmarks.simulator_truth.scoring import ttfts_s

FACTORS = (0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1)


class Band(Struct, frozen=True, kw_only=True):
    """A run's median TTFT as measured, and as predicted at each of ``FACTORS``, in ms."""

    run: str
    measured_ms: float
    predicted_ms: tuple[float, ...]

    @property
    def amplification(self) -> float:
        """Per cent of the median for a per cent of step time."""
        first, last = self.predicted_ms[0], self.predicted_ms[-1]
        return math.log(last / first) / math.log(FACTORS[-1] / FACTORS[0])


def band(
    run: str,
    measured: Sequence[Request],
    predict: Callable[[Calibration], Sequence[Request]],
    calibration: Calibration,
) -> Band:
    """The band of one run that was not fitted on."""

    def median_ms(factor: float) -> float:
        slowed = replace(calibration, step_times=calibration.step_times.slowed(factor))
        return 1000 * float(np.median(ttfts_s(predict(slowed))))

    return Band(
        run=run,
        measured_ms=1000 * float(np.median(ttfts_s(measured))),
        predicted_ms=tuple(median_ms(factor) for factor in FACTORS),
    )


def told(bands: Sequence[Band]) -> str:
    """One line a run, for people."""
    width = max(len(one.run) for one in bands) + 2
    head = "".join(f"{f'× {factor:g}':>9}" for factor in FACTORS)
    lines = [f"{'median TTFT, ms; step times':<{width}}{head}{'measured':>10}{'amplified':>11}"]
    lines += [
        f"{one.run:<{width}}{''.join(f'{ms:>9,.0f}' for ms in one.predicted_ms)}"
        f"{one.measured_ms:>10,.0f}{one.amplification:>10.1f}×"
        for one in bands
    ]
    return "\n".join(lines)
