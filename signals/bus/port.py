"""The feedback bus: a durable, ordered log between ingest and the feature stage.

Two small ports, because two processes hold the two ends. Offsets start at 1, rise by one with
every event and are never used twice, also not after trimming and a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Bus(Protocol):
    """The writing end. Thread-safe."""

    def append(self, batch: Sequence[Message]) -> Future[range]:
        """Append all of the batch or nothing; the offsets come when it is durable, not before.

        Raises ``Unavailable`` at once when too much is waiting. The future fails with
        ``Unavailable`` when the commit failed; the batch may then be posted again.
        """

    def trim(self, *, consumed: int, before_us: int, limit: int) -> Future[int]:
        """Drop at most ``limit`` of the oldest entries; the future says how many went.

        Only entries accepted before ``before_us`` and at or below ``consumed``, the lowest offset
        that every consumer has behind it, are dropped.
        """

    def healthy(self) -> bool:
        """Whether an append made now could become durable."""

    def close(self) -> None:
        """Commit what was accepted, then stop. Later appends raise ``Unavailable``."""


class BusReader(Protocol):
    """The reading end, from any process. Raises ``Unavailable`` while the log cannot be read."""

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """The first ``limit`` committed entries with ``offset > after``, in order."""

    def end(self) -> int:
        """The last committed offset; 0 before the first."""

    def close(self) -> None:
        """Let go of the log."""
