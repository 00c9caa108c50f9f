"""About one record a second of what a simulated replica did, cut at each change of stamp.

Kept as plain tuples, which cost a tenth of the records they become when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from engine.simulated.scheduler import Scheduler
from engine.stamps import seen
from policies.runtime_config import Stamp
from signals.events import IntentLoad, Second, StepMoments

_MOMENTS = StepMoments.__struct_fields__
NOTHING: Mapping[str, int] = {}


class Told(NamedTuple):
    """One record: times in true simulated µs; ``moments`` in the order of ``StepMoments``."""

    to_us: int
    from_us: int
    seq: int
    stamp: Stamp
    arrivals: Mapping[str, int]
    offered: Mapping[str, int]
    output: Mapping[str, int]
    waiting: Mapping[str, int]
    running: Mapping[str, int]
    kv_used: int
    kv_total: int
    preempted: int
    moments: tuple[float, ...]
    values: Mapping[str, int]
    lookups: int
    hits: int

    def record(self, skew_us: int) -> Second:
        """As the engine's telemetry would have sent it, by a clock that is ``skew_us`` off."""
        names = sorted({*self.arrivals, *self.output, *self.waiting, *self.running})
        return Second(
            seq=self.seq,
            stamp=seen(self.stamp),
            from_us=self.from_us + skew_us,
            to_us=self.to_us + skew_us,
            intents={name: self._load(name) for name in names},
            kv_blocks_used=self.kv_used,
            kv_blocks_total=self.kv_total,
            preemptions=self.preempted,
            steps=StepMoments(**dict(zip(_MOMENTS, map(round, self.moments), strict=True))),
            knobs=dict(self.values),
            prefix_lookups=self.lookups,
            prefix_hits=self.hits,
        )

    def _load(self, name: str) -> IntentLoad:
        return IntentLoad(
            arrivals=self.arrivals.get(name, 0),
            offered_tokens=self.offered.get(name, 0),
            output_tokens=self.output.get(name, 0),
            waiting=self.waiting.get(name, 0),
            running=self.running.get(name, 0),
        )


class Seconds:
    """The record in the making, and those made. ``due_us``: when the present one is long enough."""

    def __init__(self, length_us: int, at_us: float) -> None:
        self.told: list[Told] = []
        self._length_us = length_us
        self._preempted = self._lookups = self._hits = 0
        self._begin(at_us)

    def arrived(self, intent: str, tokens: int) -> None:
        """Count an arrival."""
        self._arrivals[intent] += 1
        self._offered[intent] += tokens

    def equal_steps(
        self, count: int, decode: int, took_us: float, squares: float, decoding: Mapping[str, int]
    ) -> None:
        """Count steps of pure decoding: ``took_us`` and ``squares`` sum their times."""
        sums = self._sums
        sums[0] += count
        sums[1] += count * decode
        sums[3] += took_us
        sums[4] += count * decode * decode
        sums[7] += decode * took_us
        sums[9] += squares
        self._draw(decoding, count)

    def step(self, decode: int, prefill: int, took_us: float, decoding: Mapping[str, int]) -> None:
        """Count one step; the tokens of prompts that it completed are told by ``drew``."""
        sums = self._sums
        sums[0] += 1
        sums[1] += decode
        sums[2] += prefill
        sums[3] += took_us
        sums[4] += decode * decode
        sums[5] += decode * prefill
        sums[6] += prefill * prefill
        sums[7] += decode * took_us
        sums[8] += prefill * took_us
        sums[9] += took_us * took_us
        self._draw(decoding, 1)

    def drew(self, intent: str) -> None:
        """Count the token that a completed prompt draws."""
        self._output[intent] = self._output.get(intent, 0) + 1

    def close(
        self, at_us: float, seq: int, stamp: Stamp, values: Mapping[str, int], lines: Scheduler
    ) -> bool:
        """End the record here and begin the next; False: it would have no length."""
        if round(at_us) <= self.from_us:
            return False
        idle = not lines.running and not lines.waits
        waiting = NOTHING if idle else dict(lines.waits_of)
        running = NOTHING if idle else Counter(one.intent for one in lines.running.values())
        lookups, hits = (lines.cache.lookups, lines.cache.hits) if lines.cache else (0, 0)
        self.told.append(
            Told(
                round(at_us),
                self.from_us,
                seq,
                stamp,
                self._arrivals,
                self._offered,
                self._output,
                waiting,
                running,
                lines.used,
                lines.capacity,
                lines.preempted - self._preempted,
                tuple(self._sums),
                values,
                lookups - self._lookups,
                hits - self._hits,
            )
        )
        self._preempted, self._lookups, self._hits = lines.preempted, lookups, hits
        self._begin(at_us)
        return True

    def restart(self, at_us: float) -> None:
        """Forget the record in the making: a new engine begins here."""
        self._preempted = self._lookups = self._hits = 0
        self._begin(at_us)

    def _draw(self, decoding: Mapping[str, int], steps: int) -> None:
        output = self._output
        for intent, many in decoding.items():
            if many:
                output[intent] = output.get(intent, 0) + steps * many

    def _begin(self, at_us: float) -> None:
        self.from_us = round(at_us)
        self.due_us = at_us + self._length_us
        self._arrivals: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()
        self._output: dict[str, int] = {}
        self._sums: list[float] = [0] * len(_MOMENTS)
