"""The ingest process: the signals API in front of the bus, with a graceful stop."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Container, Mapping
from concurrent.futures import TimeoutError as StillWaiting
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from signals.bus.sqlite import SqliteBus
from signals.definitions import Definitions
from signals.errors import Broken, Unavailable
from signals.events import MICROS
from signals.ingest.app import make_app
from signals.ingest.keys import KeyReader
from signals.settings import BusSettings, IngestSettings

log = logging.getLogger(__name__)

GRACE_S = 5
_STOP_POLL_S = 0.05
_BACKLOG = 2048
_BETWEEN_TRIMS_S = 0.1
_TRIM_S = 10.0

Consumed = Callable[[], int]
"""The offset that a consumer of the bus has behind it. Raises ``Unavailable``."""


def run(
    *,
    bus_path: Path,
    keys: KeyReader,
    definitions: Definitions,
    targets: Container[str],
    settings: IngestSettings,
    bus_settings: BusSettings,
    consumers: Mapping[str, Consumed],
    stop: threading.Event,
) -> None:
    """Serve until ``stop`` is set, then end gracefully.

    Requests under way get their answers (``GRACE_S`` seconds at most) and everything acknowledged
    is on disk. Old entries are trimmed up to the offset that all ``consumers`` have passed; while
    one of them cannot say, nothing is. Raises ``Unavailable`` if the log is held by another or the
    port cannot be had.
    """
    bus = SqliteBus(bus_path, bus_settings)
    try:
        app = make_app(
            bus=bus, keys=keys, definitions=definitions, targets=targets, settings=settings
        )
        trimmer = threading.Thread(target=_trim_old, args=(bus, bus_settings, consumers, stop))
        trimmer.start()
        try:
            _serve(app, settings, stop)
        finally:
            stop.set()
            trimmer.join()
    finally:
        bus.close()


def _serve(app: FastAPI, settings: IngestSettings, stop: threading.Event) -> None:
    """uvicorn on a thread of its own: there it leaves termination to whoever holds ``stop``."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        limit_concurrency=settings.max_connections,
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


def _trim_old(
    bus: SqliteBus,
    settings: BusSettings,
    consumers: Mapping[str, Consumed],
    stop: threading.Event,
) -> None:
    wait_s = settings.trim_every_s
    while not stop.wait(wait_s):
        wait_s = settings.trim_every_s
        try:
            trimmed = trim_once(bus, settings, consumers, now_us=time.time_ns() // 1000)
            if trimmed == settings.trim_events:
                wait_s = _BETWEEN_TRIMS_S
        except (Unavailable, StillWaiting) as error:
            log.info("the log was not trimmed this time: %s", error)


def trim_once(
    bus: SqliteBus, settings: BusSettings, consumers: Mapping[str, Consumed], *, now_us: int
) -> int:
    """One bounded step of retention; how many entries went. Raises ``Unavailable``."""
    if not consumers:
        return 0
    consumed = min(offset() for offset in consumers.values())
    before_us = now_us - settings.retention_s * MICROS
    return bus.trim(consumed=consumed, before_us=before_us, limit=settings.trim_events).result(
        _TRIM_S
    )
