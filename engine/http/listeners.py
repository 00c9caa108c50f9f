"""Two HTTP listeners on one event loop, on a thread of its own; the engine steps beside it."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from collections.abc import Sequence

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp

from signals.errors import Unavailable

START_S = 10.0
_POLL_S = 0.01


def bind(host: str, port: int) -> socket.socket:
    """An address of our own from now on; connections are refused until it is served.

    Raises ``Unavailable`` when it cannot be had.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sets TCP_NODELAY only where the protocol is named; without it answers and tokens
        # wait 40 ms for the delayed acknowledgement.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as taken:
        raise Unavailable(f"cannot listen on {host}:{port}: {taken}") from taken
    return bound


def url_of(listening: socket.socket) -> str:
    """``http://host:port`` of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Doors(Struct, frozen=True, kw_only=True):
    """The two bound addresses of an engine."""

    chat: socket.socket
    control: socket.socket


class Listeners:
    """Serves ASGI applications on bound sockets. ``loop`` is theirs; it runs from ``start``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, max_connections: int, stop_grace_s: float
    ) -> None:
        self._loop = loop
        self._max_connections = max_connections
        self._stop_grace_s = stop_grace_s
        self._servers: list[uvicorn.Server] = []
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        """Whether they serve."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, served: Sequence[tuple[ASGIApp, socket.socket]]) -> None:
        """Serve each application on its socket; returns when all accept connections."""
        self._servers = [self._server(app) for app, _ in served]
        sockets = [listening for _, listening in served]
        self._thread = threading.Thread(target=self._run, args=(sockets,), name="listeners")
        self._thread.start()
        waited = threading.Event()
        for _ in range(math.ceil(START_S / _POLL_S)):
            if all(server.started for server in self._servers) or not self.alive:
                break
            waited.wait(_POLL_S)
        if not all(server.started for server in self._servers):
            raise Unavailable("the listeners did not start")

    def stop_accepting(self) -> None:
        """Take no more requests; those under way go on."""
        for server in self._servers:
            server.should_exit = True

    def join(self, timeout_s: float) -> bool:
        """Wait until the requests under way are answered; False when they are not in time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.alive

    def _server(self, app: ASGIApp) -> uvicorn.Server:
        # Cut off only after the engine has cancelled what still ran, so that clients are told.
        config = uvicorn.Config(
            app,
            lifespan="off",
            access_log=False,
            log_config=None,
            limit_concurrency=self._max_connections,
            timeout_graceful_shutdown=math.ceil(self._stop_grace_s) + 2,
        )
        return uvicorn.Server(config)

    def _run(self, sockets: Sequence[socket.socket]) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(sockets))
        self._loop.close()

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        pairs = zip(self._servers, sockets, strict=True)
        await asyncio.gather(*(server.serve(sockets=[listening]) for server, listening in pairs))
