"""The bus in memory, for one process: the same contract, without the durability."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from signals.bus.port import BusStatus, Entry, Message
from signals.errors import Unavailable


class MemoryBus:
    """Both ends of a bus in one object. ``queue_events`` bounds one batch; nothing ever waits."""

    max_event_bytes = 1_048_576

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._end = 0
        self._closed = False

    def append(self, batch: Sequence[Message]) -> Future[None]:
        """Append; the future is already done."""
        appended: Future[None] = Future()
        with self._lock:
            if self._closed:
                raise Unavailable("the bus is closed")
            first = self._end + 1
            self._entries.extend(
                Entry(
                    offset=offset,
                    key=message.key,
                    body=message.body,
                    producer=message.producer,
                    accepted_us=message.accepted_us,
                )
                for offset, message in enumerate(batch, first)
            )
            self._end += len(batch)
            appended.set_result(None)
        return appended

    def healthy(self) -> bool:
        """Until it is closed."""
        return not self._closed

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """The next entries."""
        with self._lock:
            return self._entries[max(0, after) : max(0, after) + limit]

    def end(self) -> int:
        """The last offset."""
        return self._end

    def status(self) -> BusStatus:
        """What there is; nobody is named, nothing is on a disk."""
        with self._lock:
            return BusStatus(
                first=1,
                end=self._end,
                consumers={},
                bytes=None,
                segments=None,
                oldest_us=self._entries[0].accepted_us if self._entries else None,
            )

    def close(self) -> None:
        """Refuse what comes later; what is there stays readable."""
        self._closed = True
