"""Runs the control plane until told to stop; termination is left to whoever holds ``stop``."""

from __future__ import annotations

import threading

import uvicorn
from fastapi import FastAPI

from controller.api.front import fronted
from controller.config.sections import ServeSettings
from signals.errors import Unavailable

GRACE_S = 3
POLL_S = 0.05


def serve_until(stop: threading.Event, app: FastAPI, settings: ServeSettings) -> None:
    """Serve; returns after a graceful stop. Raises ``Unavailable`` when the port can't be had."""
    config = uvicorn.Config(
        fronted(app),
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=settings.max_connections,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="control-plane")
    thread.start()
    while thread.is_alive() and not stop.wait(POLL_S):
        pass
    server.should_exit = True
    thread.join()
    if not server.started:
        raise Unavailable(f"cannot serve on {settings.host}:{settings.port}; is the port taken?")
