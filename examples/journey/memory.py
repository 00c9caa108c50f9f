"""Resident memory of each process of the run, every few seconds: at rest, and how fast it grows."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

EVERY_S = 5.0
MIB = 2**20
LAST_SHARE = 0.8
MAX_SAMPLES = 20_000
"""A day; after it no more are taken."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """One process. ``rest_mib``: before the traffic; the slope is of the last 80 % of the run."""

    name: str
    rest_mib: float
    last_mib: float
    slope_mib_per_min: float
    minutes: float


class MemoryLog:
    """Samples in a thread of its own until stopped."""

    def __init__(self, processes: Callable[[], Mapping[str, int]]) -> None:
        self._processes = processes
        self._samples: dict[str, list[tuple[float, float]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._stop.set()
        self._thread.join(EVERY_S)

    def growth(self) -> list[Growth]:
        """Each process by name."""
        return [_growth(name, list(seen)) for name, seen in sorted(self._samples.items()) if seen]

    def _run(self) -> None:
        while not self._stop.is_set():
            for name, pid in self._processes().items():
                seen = self._samples.setdefault(name, [])
                rss = resident_bytes(pid)
                if rss is not None and len(seen) < MAX_SAMPLES:
                    seen.append((time.monotonic(), rss / MIB))
            self._stop.wait(EVERY_S)


def resident_bytes(pid: int) -> int | None:
    """RSS; None when the process is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares dy/dx; 0 with fewer than two distinct x.

    >>> slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)])
    2.0
    """
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def _growth(name: str, seen: Sequence[tuple[float, float]]) -> Growth:
    late = seen[round((1 - LAST_SHARE) * len(seen)) :]
    return Growth(
        name=name,
        rest_mib=seen[0][1],
        last_mib=seen[-1][1],
        slope_mib_per_min=60 * slope(late),
        minutes=(late[-1][0] - late[0][0]) / 60 if late else 0.0,
    )
