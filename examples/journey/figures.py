"""Figures of the target over time, as the control plane tells them; and what requests came to."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import httpx

from examples.journey.rest import Caller, RefusedError

EVERY_S = 1.0
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

    def period(self, name: str, from_s: float, to_s: float, *, cycle_s: float) -> Period:
        """What the last whole cycles between two moments (Unix seconds) came to.

        Of the intent ``batch`` the tokens of requests that ended in it, of ``live`` those that
        arrived. Only as many cycles as the rows at hand reach back for.
        """
        ended = [row for row in self._rows("batch") if row["finished_us"] is not None]
        reach_s = max(from_s, min((row["arrival_us"] / 1e6 for row in ended), default=from_s))
        cycles = int((to_s - reach_s) / cycle_s)
        if cycles < 1:
            return Period(name=name, tokens_per_s=None, attainment=None)
        began_s = to_s - cycles * cycle_s
        tokens = sum(
            row["output_tokens"] for row in ended if began_s < row["finished_us"] / 1e6 <= to_s
        )
        good = [
            row["good"]
            for row in self._rows("live")
            if began_s < row["arrival_us"] / 1e6 <= to_s and row["good"] is not None
        ]
        return Period(
            name=name,
            tokens_per_s=tokens / (to_s - began_s),
            attainment=statistics.fmean(good) if good else None,
        )

    def _rows(self, intent: str) -> list[dict[str, Any]]:
        """The target's latest requests of an intent, newest first."""
        found: list[dict[str, Any]] = self._viewer.get(
            "/v1/requests", target=self._target, intent=intent, limit=ROWS
        )["items"]
        return found

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                seen = self._viewer.get(f"/v1/targets/{self._target}/features")["features"]
            except (httpx.HTTPError, RefusedError):
                self.missed += 1
                continue
            self._noted.append((time.time(), seen))
