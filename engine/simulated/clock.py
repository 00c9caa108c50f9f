"""Simulated time."""

from __future__ import annotations

from engine.settings_in_force import Instant
from signals.events import MICROS


class SimClock:
    """µs since the simulation began, on both clocks; only who runs the simulation moves it.

    >>> clock = SimClock(); clock.now_us = 1_500_000; clock().mono_s
    1.5
    """

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us

    def __call__(self) -> Instant:
        """Now, as the settings of an engine take it."""
        return Instant(mono_s=self.now_us / MICROS, wall_s=self.now_us / MICROS)
