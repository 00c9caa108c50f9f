"""When to try again: after a success when asked to, after failures later and later."""

from __future__ import annotations

import logging
import random
import time

from signals.errors import Unavailable

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05
_DOUBLINGS = 16


class Patience:
    """Of one thing that may fail for a while. ``what`` names it in the log."""

    def __init__(self, what: str, *, max_s: float) -> None:
        self.due_s = 0.0
        self._what = what
        self._max_s = max_s
        self._failures = 0

    def is_due(self) -> bool:
        """Whether to try now, by the monotonic clock."""
        return time.monotonic() >= self.due_s

    def succeeded(self, *, pause_s: float) -> None:
        """Try again after that pause."""
        self._failures = 0
        self.due_s = time.monotonic() + pause_s

    def failed(self, error: Unavailable) -> None:
        """Try again after twice the last pause, at most ``max_s``. One line per outage is logged.

        Jitter keeps several waiting processes from trying all at once.
        """
        if self._failures == 0:
            log.warning("%s waits: %s", self._what, error.detail)
        pause_s = min(self._max_s, FIRST_PAUSE_S * 2.0**self._failures)
        self._failures = min(self._failures + 1, _DOUBLINGS)
        self.due_s = time.monotonic() + pause_s * random.uniform(0.5, 1.0)

    def wait_long(self) -> None:
        """Try again after the longest pause."""
        self.due_s = time.monotonic() + self._max_s
