"""How a process main is told to end: SIGTERM or SIGINT set an event, and loops look at it."""

from __future__ import annotations

import signal
import threading


def stop_on_termination() -> threading.Event:
    """An event that SIGTERM and SIGINT set from now on. To be called on the main thread."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
