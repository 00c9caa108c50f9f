"""Between ingest and the broker: cuts a connection when the broker has a request, before its reply.

Requests are forwarded whole (Kafka's frames: four bytes of length, then the call's number). Once a
cut is armed, the next produce request is forwarded; at the first byte of the broker's answer both
ends are closed, and nothing of the answer goes back. The broker has the events; ingest can't know.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_PRODUCE: Final = 0
_CHUNK: Final = 65_536
_JOIN_S: Final = 5.0


class Proxy:
    """Forwards ``port`` to ``upstream``, which is set before the first client comes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.upstream = 0
        self.cuts = 0
        self._armed = threading.Semaphore(0)
        self._links: set[_Link] = set()
        self._open = True
        self._accepting = _thread(self._accept)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._accepting.join(_JOIN_S)
        self._listener.close()
        for link in list(self._links):
            link.close()

    def arm(self) -> None:
        """Cut once more."""
        self._armed.release()

    def disarm(self) -> None:
        """Cut no more."""
        while self._armed.acquire(blocking=False):
            pass

    def take(self) -> bool:
        """Whether this request is to be cut; one armed cut is used up."""
        return self._armed.acquire(blocking=False)

    def ended(self, link: _Link) -> None:
        """A link is closed."""
        self._links.discard(link)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if not self._open:
                client.close()
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.upstream), 5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, broker)
            self._links.add(link)
            link.start()


class _Link:
    """One client's connection, and ours to the broker."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._doomed = False

    def start(self) -> None:
        """Both directions, each on a thread of its own."""
        _thread(self._requests)
        _thread(self._answers)

    def close(self) -> None:
        """Both ends, at once. Idempotent."""
        for end in (self._client, self._broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._proxy.ended(self)

    def _requests(self) -> None:
        with suppress(OSError, ValueError), self._client.makefile("rb") as stream:
            while head := stream.read(4):
                body = stream.read(int.from_bytes(head, "big"))
                produce = int.from_bytes(body[:2], "big") == _PRODUCE
                if produce and not self._doomed and self._proxy.take():
                    self._doomed = True
                self._broker.sendall(head + body)
        self.close()

    def _answers(self) -> None:
        with suppress(OSError):
            while chunk := self._broker.recv(_CHUNK):
                if self._doomed:
                    self._proxy.cuts += 1
                    break
                self._client.sendall(chunk)
        self.close()


def _thread(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
