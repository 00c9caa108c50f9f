"""Figures of the target over time, as the control plane tells them; and what requests came to."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass

import httpx

from examples.journey.rest import Caller, RefusedError

EVERY_S = 1.0
SPAN_S = 10.0
"""A feature looks back this far, so a period's first such seconds still tell of what was before."""
KEPT = 7200
ROWS = 1000


@dataclass(frozen=True, kw_only=True)
class Period:
    """What a while came to. None: nothing was seen."""

    name: str
    tokens_per_s: float | None
    attainment: float | None

    def cells(self) -> list[str]:
        """For a table: name, batch tokens/s, live attainment."""
        rate = "–" if self.tokens_per_s is None else f"{self.tokens_per_s:.0f}"
        share = "–" if self.attainment is None else f"{self.attainment:.1%}"
        return [self.name, rate, share]


class FigureLog:
    """Notes the target's features once a second, in a thread of its own."""

    def __init__(self, viewer: Caller, target: str) -> None:
        self._viewer = viewer
        self._target = target
        self._noted: deque[tuple[float, dict[str, float]]] = deque(maxlen=KEPT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="figures", daemon=True)
        self.missed = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(EVERY_S * 5)

    def latest(self, name: str) -> float | None:
        """A feature's last value."""
        return self._noted[-1][1].get(name) if self._noted else None

    def period(self, name: str, from_s: float, to_s: float) -> Period:
        """What was seen between two moments (Unix seconds)."""
        rates = [
            seen["batch.tokens_per_s"]
            for at_s, seen in list(self._noted)
            if from_s + SPAN_S <= at_s <= to_s and "batch.tokens_per_s" in seen
        ]
        return Period(
            name=name,
            tokens_per_s=statistics.fmean(rates) if rates else None,
            attainment=self._attainment("live", from_s, to_s),
        )

    def _attainment(self, intent: str, from_s: float, to_s: float) -> float | None:
        rows = self._viewer.get("/v1/requests", target=self._target, intent=intent, limit=ROWS)
        good = [
            row["good"]
            for row in rows["items"]
            if from_s <= row["arrival_us"] / 1e6 <= to_s and row["good"] is not None
        ]
        return statistics.fmean(good) if good else None

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                seen = self._viewer.get(f"/v1/targets/{self._target}/features")["features"]
            except (httpx.HTTPError, RefusedError):
                self.missed += 1
                continue
            self._noted.append((time.time(), seen))
