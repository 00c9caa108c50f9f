"""A TCP proxy that cuts connections after a request was forwarded and before its reply."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK = 65_536
PRODUCE = 0
"""The first two bytes of a request after its length: which of Kafka's calls it is."""


class Proxy:
    """Forwards ``port`` to ``upstream``. Use in a ``with``.

    ``cut_next`` arms one cut: the next produce request is forwarded whole, and the connection is
    cut as soon as the broker has answered it, before a byte of the answer goes back.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.upstream = 0
        self.cuts = 0
        self._armed = threading.Event()
        self._cut = threading.Event()
        self._open = True
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._open = False
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def cut_next(self) -> None:
        """Arm one cut."""
        self._cut.clear()
        self._armed.set()

    def wait_for_cut(self, within_s: float) -> bool:
        """Whether the armed cut came to pass in time."""
        return self._cut.wait(within_s)

    def _start(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if not self._open:
                client.close()
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.upstream), 2)
            except OSError:
                client.close()
                continue
            link = _Link(self, client, broker)
            self._start(link.requests)
            self._start(link.answers)

    def _cut_now(self) -> None:
        self.cuts += 1
        self._armed.clear()
        self._cut.set()


class _Link:
    """One client's connection and ours to the broker."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._doomed = threading.Event()

    def requests(self) -> None:
        """Client to broker, a whole request at a time."""
        with contextlib.suppress(OSError), self._client.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(int.from_bytes(head, "big"))
                if int.from_bytes(body[:2], "big") == PRODUCE and self._proxy._armed.is_set():
                    self._doomed.set()
                self._broker.sendall(head + body)
        self._end()

    def answers(self) -> None:
        """Broker to client, until the connection is doomed."""
        with contextlib.suppress(OSError):
            while chunk := self._broker.recv(CHUNK):
                if self._doomed.is_set():
                    self._proxy._cut_now()
                    break
                self._client.sendall(chunk)
        self._end()

    def _end(self) -> None:
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
