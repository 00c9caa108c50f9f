"""A paced simulated engine behind the control listener of every engine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.http.control import control_app
from engine.http.listeners import Listeners, url_of
from engine.simulated.paced import PacedEngine

MAX_CONNECTIONS = 64
STOP_S = 5.0


@contextmanager
def served(
    engine: PacedEngine, door: socket.socket, *, key: str, apply_timeout_s: float
) -> Iterator[str]:
    """It steps, and its settings are at the address that comes out; both end with the block."""
    stepping = threading.Thread(target=engine.run, name="engine")
    listeners = Listeners(
        asyncio.new_event_loop(), max_connections=MAX_CONNECTIONS, stop_grace_s=0.2
    )
    app = control_app(engine.live, engine.wake, key=key, apply_timeout_s=apply_timeout_s)
    stepping.start()
    try:
        listeners.start([(app, door)])
        yield url_of(door)
    finally:
        listeners.stop_accepting()
        listeners.join(STOP_S)
        engine.stop()
        stepping.join(STOP_S)
