"""How the log stands, asked by many threads: readers of every partition, one question at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from signals.bus.port import BusReader, BusStatus
from signals.errors import Unavailable


class BusView:
    """Opens its readers when first asked, and afresh after a failure."""

    def __init__(self, open_readers: Callable[[], Mapping[int, BusReader]]) -> None:
        self._open = open_readers
        self._lock = threading.Lock()
        self._readers: Mapping[int, BusReader] = {}

    def status(self) -> Mapping[int, BusStatus]:
        """By partition. Raises ``Unavailable``."""
        with self._lock:
            try:
                if not self._readers:
                    self._readers = self._open()
                return {partition: reader.status() for partition, reader in self._readers.items()}
            except Unavailable:
                self._close()
                raise

    def close(self) -> None:
        """Let go of the log."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.close()
