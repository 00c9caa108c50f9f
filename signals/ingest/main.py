"""The ingest process: the signals API in front of the bus, with a graceful stop."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Collection

import uvicorn
from fastapi import FastAPI

from signals.bus.port import Bus, BusStatus
from signals.definitions import Definitions
from signals.errors import Broken, Unavailable
from signals.ingest.app import make_app
from signals.ingest.connections import bounded_http
from signals.ingest.keys import KeyReader
from signals.pseudonyms import Pseudonyms
from signals.settings import IngestSettings

GRACE_S = 5
_SWITCH_S = 0.001
"""The bus' writer needs the interpreter a few times a commit, and waits that long for it each time
while the event loop judges a post; Python's own 5 ms would be seen in every acknowledgement."""

_STOP_POLL_S = 0.05
_BACKLOG = 2048


def run(
    *,
    bus: Bus,
    keys: KeyReader,
    definitions: Definitions,
    targets: Collection[str],
    settings: IngestSettings,
    stop: threading.Event,
    status: Callable[[], BusStatus] | None = None,
    pseudonyms: Pseudonyms | None = None,
) -> None:
    """Serve until ``stop`` is set, then end gracefully and close the bus, whatever happens.

    ``status``, where the bus has one of its own, becomes gauges in the metrics; ``pseudonyms``: see
    ``make_app``. Requests under way
    get their answers (``GRACE_S`` seconds at most) and everything acknowledged is durable. Raises
    ``Unavailable`` if the port cannot be had.
    """
    sys.setswitchinterval(_SWITCH_S)
    try:
        app = make_app(
            bus=bus,
            keys=keys,
            definitions=definitions,
            targets=targets,
            settings=settings,
            status=status,
            pseudonyms=pseudonyms,
        )
        _serve(app, settings, stop)
    finally:
        bus.close()


def _serve(app: FastAPI, settings: IngestSettings, stop: threading.Event) -> None:
    """uvicorn on a thread of its own: there it leaves termination to whoever holds ``stop``."""
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=bounded_http(settings.max_connections),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    with _listen(settings) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), name="signals-api")
        thread.start()
        while thread.is_alive() and not stop.wait(_STOP_POLL_S):
            pass
        server.should_exit = True
        thread.join()
    if not stop.is_set():
        raise Broken("the signals API ended by itself")


def _listen(settings: IngestSettings) -> socket.socket:
    try:
        listener = socket.create_server((settings.host, settings.port), backlog=_BACKLOG)
    except OSError as error:
        raise Unavailable(
            f"cannot serve on {settings.host}:{settings.port}: {error.strerror}"
        ) from error
    # Inherited by each connection. asyncio only sets it on sockets whose protocol is named, and
    # without it every answer waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
