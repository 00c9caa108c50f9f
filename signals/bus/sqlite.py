"""The bus as one SQLite file: an append table in WAL mode with ``synchronous=FULL``.

One writer thread owns the only writing connection. It commits in groups: an append after a quiet
spell is committed at once; under load, appends gather until ``commit_events`` are there or the
oldest has waited ``commit_ms``. A future is resolved only after COMMIT returned, which with
``synchronous=FULL`` is after the fsync of the write-ahead log: that is what an acknowledgement
stands on. A lock file keeps a second writing process out.

Not ``INTEGER PRIMARY KEY AUTOINCREMENT``: the thread numbers entries itself, from the last offset
ever given (kept in ``position`` once entries were trimmed), so offsets are known before the commit
and never come back.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from signals.bus.log_file import (
    last_offset,
    open_for_reading,
    open_for_writing,
)
from signals.bus.pending import Append, Close, Work
from signals.bus.port import BusStatus, Consumed, Entry, Message
from signals.errors import Unavailable
from signals.file_lock import FileLock
from signals.settings import BusSettings

_INSERT = "INSERT INTO entries (offset, key, producer, accepted_us, body) VALUES (?, ?, ?, ?, ?)"

_FAILING_S = 1.0

T = TypeVar("T")

NOBODY: Final[Mapping[str, Consumed]] = MappingProxyType({})
SEGMENT: Final = "00000000000000000001.db"


class SqliteBus:
    """The writing end; opens or creates the folder. Raises ``Unavailable`` if it cannot."""

    def __init__(
        self,
        folder: Path,
        settings: BusSettings | None = None,
        *,
        consumers: Mapping[str, Consumed] = NOBODY,
    ) -> None:
        self._settings = settings or BusSettings()
        self._queue: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._group: list[Append] = []
        self._waiting = 0
        self._closed = False
        self._failed_at_s = float("-inf")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file_lock = FileLock(folder)
        try:
            self._log = open_for_writing(folder / SEGMENT)
            self._end = last_offset(self._log)
        except BaseException:
            self._file_lock.release()
            raise
        self._thread = threading.Thread(target=self._write, name="bus-writer", daemon=True)
        self._thread.start()

    def append(self, batch: Sequence[Message]) -> Future[None]:
        """See ``Bus.append``. A batch larger than the whole bound is taken when nothing waits."""
        work = Append(batch)
        with self._lock:
            if self._closed:
                raise Unavailable("the bus is closed")
            full = self._waiting + len(batch) > self._settings.queue_events
            if full and self._waiting > 0:
                raise Unavailable(f"{self._waiting} events already wait for the log")
            self._waiting += len(batch)
            self._queue.put(work)
        return work.done

    def healthy(self) -> bool:
        """The writer lives, there is room in the queue, and no commit failed a moment ago.

        A moment only: who is not ready gets no events, and could not find out that it is again.
        """
        room = self._waiting < self._settings.queue_events
        failing = time.monotonic() - self._failed_at_s < _FAILING_S
        return self._thread.is_alive() and room and not (failing or self._closed)

    def close(self) -> None:
        """See ``Bus.close``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(Close())
        self._thread.join()
        self._log.close()
        self._file_lock.release()

    def _write(self) -> None:
        """The writer thread. Whatever ends it, nobody is left waiting for an answer."""
        try:
            self._work_until_closed()
        finally:
            with self._lock:
                self._closed = True
            self._refuse_the_rest()

    def _work_until_closed(self) -> None:
        last_commit_s = 0.0
        while True:
            work: Work | None = self._queue.get()
            if isinstance(work, Append):
                self._group, work = self._gather(work, last_commit_s)
                self._commit(self._group)
                last_commit_s = time.monotonic()
            if isinstance(work, Close):
                return

    def _refuse_the_rest(self) -> None:
        for append in self._group:
            append.refuse(Unavailable("the bus has stopped"))
        while True:
            try:
                work = self._queue.get_nowait()
            except queue.Empty:
                return
            if not isinstance(work, Close):
                work.refuse(Unavailable("the bus is closed"))

    def _gather(self, first: Append, last_commit_s: float) -> tuple[list[Append], Close | None]:
        """Company for ``first``, and whatever else than an append ended the wait."""
        group, events = [first], len(first.batch)
        deadline = last_commit_s + self._settings.commit_ms / 1000
        while events < self._settings.commit_events:
            try:
                work = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if not isinstance(work, Append):
                return group, work
            group.append(work)
            events += len(work.batch)
        return group, None

    def _commit(self, group: list[Append]) -> None:
        """One transaction for the group; resolve or fail every future in it."""
        first = self._end + 1
        messages = [message for work in group for message in work.batch]
        rows = [
            (offset, message.key, message.producer, message.accepted_us, message.body)
            for offset, message in enumerate(messages, first)
        ]
        try:
            self._transact(lambda connection: connection.executemany(_INSERT, rows))
        except Unavailable as unavailable:
            for work in group:
                work.refuse(unavailable)
        else:
            self._end += len(messages)
            for work in group:
                work.done.set_result(None)
        with self._lock:
            self._waiting -= len(messages)

    def _transact(self, write: Callable[[sqlite3.Connection], object]) -> None:
        """Run ``write`` in one transaction. Raises ``Unavailable``.

        After a failure the same connection rolls back: opened afresh, the log would find frames
        whose fsync failed and take them for committed.
        """
        try:
            self._log.execute("BEGIN IMMEDIATE")
            write(self._log)
            self._log.execute("COMMIT")
        except sqlite3.Error as error:
            self._failed_at_s = time.monotonic()
            if self._log.in_transaction:
                self._log.execute("ROLLBACK")
            raise Unavailable(f"the log did not take the events: {error}") from error


class SqliteBusReader:
    """The reading end: a read-only connection, opened when first needed and after a failure."""

    def __init__(self, folder: Path, *, consumers: Mapping[str, Consumed] = NOBODY) -> None:
        self._path = folder / SEGMENT
        self._consumers = consumers
        self._connection: sqlite3.Connection | None = None

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """See ``BusReader.read``."""
        select = (
            "SELECT offset, key, body, producer, accepted_us FROM entries"
            " WHERE offset > ? ORDER BY offset LIMIT ?"
        )
        rows = self._query(lambda log: log.execute(select, (after, limit)).fetchall())
        return [
            Entry(offset=offset, key=key, body=body, producer=producer, accepted_us=accepted_us)
            for offset, key, body, producer, accepted_us in rows
        ]

    def end(self) -> int:
        """See ``BusReader.end``."""
        return self._query(last_offset)

    def status(self) -> BusStatus:
        """See ``BusReader.status``."""
        oldest = "SELECT offset, accepted_us FROM entries ORDER BY offset LIMIT 1"
        rows = self._query(lambda log: log.execute(oldest).fetchall())
        end = self.end()
        first, oldest_us = rows[0] if rows else (end + 1, None)
        return BusStatus(
            first=first,
            end=end,
            consumers={name: offset_of(consumed) for name, consumed in self._consumers.items()},
            bytes=self._path.stat().st_size,
            segments=1,
            oldest_us=oldest_us,
        )

    def close(self) -> None:
        """See ``BusReader.close``; a later read opens the log again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _query(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = open_for_reading(self._path)
            return ask(self._connection)
        except sqlite3.Error as error:
            self.close()
            raise Unavailable(f"cannot read the log {self._path.name}: {error}") from error


def offset_of(consumed: Consumed) -> int | None:
    """A consumer's offset, None while it cannot be read."""
    try:
        return consumed()
    except Unavailable:
        return None
