"""Error records as an engine would post them for the block that runs now."""

from __future__ import annotations

import time
from random import Random

from engine.telemetry.wire import ndjson
from policies.runtime_config import RuntimeConfig
from signals.events import Finished, SeenStamp, SeenTrial
from signals.ids import RANDOM_BYTES, uuid7

REPLICA = "zz_bench"
"""Beside the real engine's, so that sequence numbers do not mix."""


class Errors:
    """Makes requests that ended in an error, each with the next sequence number."""

    def __init__(self, target: str, rng: Random) -> None:
        self._target = target
        self._rng = rng
        self._incarnation = f"{rng.getrandbits(48):012x}"
        self._seq = 0

    def ended(self, seen: RuntimeConfig, count: int) -> bytes:
        """NDJSON of ``count`` of them, under the stamp of what is in force."""
        return ndjson([self._one(seen) for _ in range(count)])

    def _one(self, seen: RuntimeConfig) -> Finished:
        assert seen.trial is not None
        trial = SeenTrial(
            id=seen.trial.id, block=seen.trial.block, arm=seen.trial.arm or "baseline"
        )
        now_us = time.time_ns() // 1000
        found = Finished(
            seq=self._seq,
            stamp=SeenStamp(
                target=self._target,
                replica=REPLICA,
                incarnation=self._incarnation,
                version=seen.version,
                digest=seen.digest,
                trial=trial,
            ),
            request_id=f"{self._target}.{uuid7(now_us, self._rng.randbytes(RANDOM_BYTES))}",
            intent="live",
            class_="interactive",
            arrival_us=now_us,
            finished_us=now_us,
            status="error",
            prompt_tokens=8,
            output_tokens=0,
            max_tokens=16,
            error="made by the benchmark",
        )
        self._seq += 1
        return found
