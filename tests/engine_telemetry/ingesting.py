"""The real ingest application on a free port, which a test can take away and bring back."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self, TypeVar

import uvicorn
from msgspec import Struct

from engine.http.listeners import bind, url_of
from signals.bus.memory import MemoryBus
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.events import Arrived, Finished, Record, Second, Started
from signals.ingest.app import make_app
from signals.ingest.keys import Producer, StaticKeys, sha256_hex
from signals.settings import IngestSettings

KEY = "engine-key"
T = TypeVar("T", Arrived, Finished, Second, Started)


class Ingest:
    """Takes basic signals of target ``chat``. Everything acknowledged is in ``records``."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self._socket = bind("127.0.0.1", 0)
        self.url = url_of(self._socket)
        self._port = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen; again after ``stop``."""
        if self._socket.fileno() < 0:
            self._socket = bind("127.0.0.1", self._port)
        producer = Producer(name="engine", kinds=frozenset({"basic"}))
        app = make_app(
            bus=self.bus,
            keys=StaticKeys({sha256_hex(KEY): producer}),
            definitions=StaticDefinitions({}),
            targets={"chat"},
            settings=IngestSettings(),
        )
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; the port refuses connections."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        self._socket.close()

    @property
    def records(self) -> list[Record]:
        """What was acknowledged, in order."""
        entries = self.bus.read(after=0, limit=1_000_000)
        return [record for entry in entries if (record := decode(entry.body).data) is not None]

    def of(self, kind: type[T]) -> list[T]:
        """The acknowledged records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class Waiting(Struct, frozen=True):
    """How long a test waits for what other threads do."""

    bound_s: float = 20.0

    def until(self, seen: object, what: str) -> None:
        """Poll ``seen()`` until it is true; fail with ``what`` when it is not in time."""
        assert callable(seen)
        deadline_s = time.monotonic() + self.bound_s
        pause = threading.Event()
        while not seen():
            assert time.monotonic() < deadline_s, f"not in {self.bound_s:g} s: {what}"
            pause.wait(0.01)


wait = Waiting()
