"""When a crashed child is started again: quickly at first, never more often than a bound.

Delays double from ``backoff_ms`` to ``backoff_max_ms`` and start anew after a minute without a
crash. Within any minute there are at most ``restarts_per_minute``; beyond it the child waits until
the oldest of them is a minute old, and ``exhausted`` says so, loudly, once.
"""

from __future__ import annotations

from controller.config.sections import SupervisorSettings

MINUTE_S = 60.0


class Restarts:
    """The restarts of one child. ``now_s`` is monotonic.

    >>> restarts = Restarts(SupervisorSettings(backoff_ms=250, restarts_per_minute=2))
    >>> [restarts.crashed(now_s=t) for t in (0.0, 1.0, 2.0)]
    [0.25, 1.5, 60.25]
    >>> restarts.exhausted
    True
    """

    def __init__(self, settings: SupervisorSettings) -> None:
        self._settings = settings
        self._planned: list[float] = []
        self.exhausted = False

    def crashed(self, *, now_s: float) -> float:
        """Note a crash; returns when (monotonic seconds) the child is to be started again."""
        self._planned = [at for at in self._planned if at > now_s - MINUTE_S]
        at = now_s + self._backoff_s()
        bound = self._settings.restarts_per_minute
        self.exhausted = len(self._planned) >= bound
        if self.exhausted:
            at = max(at, self._planned[-bound] + MINUTE_S)
        self._planned.append(at)
        return at

    def _backoff_s(self) -> float:
        doublings = min(len(self._planned), 16)
        backoff_ms = self._settings.backoff_ms * (1 << doublings)
        return min(backoff_ms, self._settings.backoff_max_ms) / 1000
