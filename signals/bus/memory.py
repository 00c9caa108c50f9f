"""The bus in memory, for one process: the same contract, without the durability."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from signals.bus.port import Entry, Message
from signals.errors import Unavailable


class MemoryBus:
    """Both ends of a bus in one object. ``queue_events`` bounds one batch; nothing ever waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._end = 0
        self._closed = False

    def append(self, batch: Sequence[Message]) -> Future[range]:
        """Append; the future is already done."""
        appended: Future[range] = Future()
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
            appended.set_result(range(first, self._end + 1))
        return appended

    def trim(self, *, consumed: int, before_us: int, limit: int) -> Future[int]:
        """Drop old, consumed entries from the front."""
        trimmed: Future[int] = Future()
        with self._lock:
            count = 0
            for entry in self._entries[:limit]:
                if entry.offset > consumed or entry.accepted_us >= before_us:
                    break
                count += 1
            del self._entries[:count]
        trimmed.set_result(count)
        return trimmed

    def healthy(self) -> bool:
        """Until it is closed."""
        return not self._closed

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """The next entries."""
        with self._lock:
            first = self._entries[0].offset if self._entries else self._end + 1
            start = max(0, after + 1 - first)
            return self._entries[start : start + limit]

    def end(self) -> int:
        """The last offset."""
        return self._end

    def close(self) -> None:
        """Refuse what comes later; what is there stays readable."""
        self._closed = True
