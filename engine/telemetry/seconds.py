"""About one ``second`` record a second, from counters that a step only adds to.

Each record lies wholly under one stamp: when settings or trial block change, the record in the
making is closed at that boundary. Steps are summed as integers (see ``StepMoments``), so a reader
can merge records in any order and still fit the step curve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from engine.generation import Load, StepRecord
from engine.settings_in_force import Instant
from engine.stamps import seen
from engine.telemetry.ring import TelemetryRing
from policies.runtime_config import Stamp
from signals.events import MICROS, IntentLoad, Second, StepMoments

_MOMENTS = StepMoments.__struct_fields__


class SecondsTelemetry:
    """A ``LoadObserver``. ``stepped`` and ``passed`` are for the engine's thread; ``arrived`` and
    ``passed`` exclude each other by their caller's lock."""

    def __init__(self, ring: TelemetryRing, *, length_s: float, now: Instant) -> None:
        self._ring = ring
        self._length_s = length_s
        self.begin(now)

    def arrived(self, intent: str, offered_tokens: int) -> None:
        """Count an arrival under the stamp in force."""
        self._arrivals[intent] += 1
        self._offered[intent] += offered_tokens

    def stepped(self, step: StepRecord) -> None:
        """Add one engine step; constant work."""
        b, f, t = step.decode, step.prefill_tokens, round(step.took_s * MICROS)
        sums = self._sums
        for index, term in enumerate((1, b, f, t, b * b, b * f, f * f, b * t, f * t, t * t)):
            sums[index] += term
        self._output.update(step.output_tokens)
        self._preempted += step.preempted

    def passed(
        self, before: Stamp, after: Stamp, load: Load, values: Mapping[str, int], now: Instant
    ) -> None:
        """Close the record when its time is over or the stamp has changed."""
        if before is after and now.mono_s - self._from.mono_s < self._length_s:
            return
        self._push(before, load, values, now)
        self.begin(now)

    def begin(self, now: Instant) -> None:
        """Start the next record at ``now``, with nothing in it."""
        self._from = now
        self._arrivals: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._output: Counter[str] = Counter()
        self._preempted = 0
        self._sums = [0] * len(_MOMENTS)

    def _push(self, stamp: Stamp, load: Load, values: Mapping[str, int], now: Instant) -> None:
        from_us = round(self._from.wall_s * MICROS)
        lasted_us = round((now.mono_s - self._from.mono_s) * MICROS)
        intents = self._loads(load)
        moments = StepMoments(**dict(zip(_MOMENTS, self._sums, strict=True)))
        self._ring.push(
            lambda seq: Second(
                seq=seq,
                stamp=seen(stamp),
                from_us=from_us,
                to_us=from_us + lasted_us,
                intents=intents,
                kv_blocks_used=load.kv_blocks_used,
                kv_blocks_total=load.kv_blocks_total,
                preemptions=self._preempted,
                steps=moments,
                knobs=dict(values),
                dropped=self._ring.dropped,
            )
        )

    def _loads(self, load: Load) -> dict[str, IntentLoad]:
        names = {*self._arrivals, *self._output, *load.waiting, *load.running}
        return {
            name: IntentLoad(
                arrivals=self._arrivals[name],
                offered_tokens=self._offered[name],
                output_tokens=self._output[name],
                waiting=load.waiting.get(name, 0),
                running=load.running.get(name, 0),
            )
            for name in sorted(names)
        }
