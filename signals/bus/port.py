"""The feedback bus: a durable, partitioned, ordered log between ingest and the feature stage.

Small ports, because different processes hold the two ends. A target's events are all in one
partition (``partition_of``), in the order of their acceptance. Offsets start at 1 or above, rise
within a partition and are never used twice, also not after old entries went and a restart.

::

    ingest ─► Bus.append ─► │ partition 0 │ ─► BusReader ─► a feature stage and its features file
                            │ partition 1 │ ─► BusReader ─► …
                                                 ▲
                                     Assignment says who reads which
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from msgspec import Struct


class Message(Struct, frozen=True, kw_only=True):
    """An event to append. ``key`` is the partition key, the target; ``body`` an encoded Signal."""

    key: str
    body: bytes
    producer: str
    accepted_us: int


class Entry(Struct, frozen=True, kw_only=True):
    """An appended event and its offset."""

    offset: int
    key: str
    body: bytes
    producer: str
    accepted_us: int


Consumed = Callable[[], int]
"""The offset that a consumer of a bus has behind it. Raises ``Unavailable``."""


class BusStatus(Struct, frozen=True, kw_only=True):
    """How far a partition is, and who is how far behind. ``None``: not known, now or ever."""

    first: int
    """The first retained offset, ``end + 1`` or more when nothing is retained: read after one
    less."""
    end: int
    consumers: Mapping[str, int | None]
    """What each named consumer has behind it."""
    bytes: int | None
    """On the disk of this machine."""
    segments: int | None
    oldest_us: int | None
    """When the oldest retained event was accepted; µs since the epoch."""

    def lag(self, consumer: str) -> int | None:
        """Offsets that the consumer has still before it."""
        offset = self.consumers[consumer]
        return None if offset is None else max(0, self.end - offset)


class Bus(Protocol):
    """The writing end. Thread-safe."""

    @property
    def max_event_bytes(self) -> int:
        """The longest body that it is sure to take; readers have room for many of them."""

    def append(self, batch: Sequence[Message]) -> Future[None]:
        """Append the batch; the future is resolved when all of it is durable, not before.

        Raises ``Unavailable`` at once when too much is waiting, ``Rejected`` for an event that is
        larger than the log can hold; nothing of the batch is taken then. When the future fails with
        ``Unavailable``, some or none of the batch may be there: post it again, events carry ids.
        """

    def healthy(self) -> bool:
        """Whether an append made now could become durable."""

    def close(self) -> None:
        """Commit what was accepted, then stop. Later appends raise ``Unavailable``."""


class BusReader(Protocol):
    """One partition, from any process. Raises ``Unavailable`` while it cannot be read."""

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """The first ``limit`` committed entries with ``offset > after``, in order.

        Fewer when they are long or no more are there now, none only in the second case. Raises
        ``Broken`` when entries above ``after`` were dropped before they were read.
        """

    def end(self) -> int:
        """The offset of the last committed entry, at least as far as this reader has read."""

    def status(self) -> BusStatus:
        """Ends, consumers and sizes; for doctor and metrics, not for every event."""

    def close(self) -> None:
        """Let go of the log."""


class Assignment(Protocol):
    """Which partitions this process owns. One thread's."""

    def partitions(self) -> Mapping[int, BusReader]:
        """Those owned now; asked before every round, it also keeps the membership alive.

        A process that was away too long may still believe what it was told last: what it then
        writes is refused by the features file, which another has taken over (its ``epoch``).
        """

    def close(self) -> None:
        """Leave: others take over at once."""


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key, the same in every process and version.

    >>> partition_of("chat", 4)
    2
    """
    return zlib.crc32(key.encode()) % partitions
