"""The bus as a folder of SQLite files: a segment log in WAL mode with ``synchronous=FULL``.

One writer thread owns the only connection that appends. It commits in groups: an append after a
quiet spell is committed at once; under load, what gathered during the last commit goes together,
and a small group waits ``commit_ms`` for company. A group is one row (``frames``) and one
statement, so that the thread asks for the interpreter's lock once a commit, not once an event. A
future is resolved only after the commit returned, which with ``synchronous=FULL`` is after the
fsync of the write-ahead log: that is what an acknowledgement stands on. A lock file keeps a second
writing process out.

The thread numbers the events itself, from the name of the newest segment and what is in it, so
offsets are known before the commit and never come back. Rolling over is a rename of a segment that
the keeper made ahead: killed before it, the events go on in the old one; after it, in the new one,
whose name says where.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from signals.bus import log_file
from signals.bus.folder import Folder
from signals.bus.frames import MAX_FRAME_BYTES, Frame, accepted_us, frames_of, runs_of
from signals.bus.keeper import Keeper, RolledOver
from signals.bus.pending import Append, Close, Work
from signals.bus.port import BusStatus, Consumed, Message
from signals.bus.retention import Sealed
from signals.bus.settings import BusSettings
from signals.bus.sqlite_reader import NOBODY, SqliteBusReader
from signals.bus.start import Started, start
from signals.errors import Unavailable
from signals.events import MICROS
from signals.file_lock import FileLock

__all__ = ["SqliteBus", "SqliteBusReader"]

log = logging.getLogger(__name__)

_FAILING_S = 1.0
_CHECKPOINT_BYTES = 8_388_608
"""Of bodies, between two checkpoints: bounds each one's work, and what the next start must read."""
_MEASURES = 32
"""How often the size of a segment is looked at while it fills."""


class SqliteBus:
    """The writing end; opens or creates the folder. Raises ``Unavailable`` if it cannot.

    ``consumers`` are asked for the offset that they have behind them: nothing goes that one of
    them has not read, or while one cannot say. Without any, nothing goes at all.
    """

    max_event_bytes = MAX_FRAME_BYTES

    def __init__(
        self,
        folder: Path,
        settings: BusSettings | None = None,
        *,
        consumers: Mapping[str, Consumed] = NOBODY,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._settings = settings or BusSettings()
        self._queue: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._group: list[Append] = []
        self._waiting = 0
        self._closed = False
        self._failed_at_s = float("-inf")
        self._unmoved_bytes = self._unmeasured_bytes = 0
        self._folder = Folder(folder)
        self._file_lock = _locked(folder)
        try:
            started = start(self._folder)
        except BaseException:
            self._file_lock.release()
            raise
        self._take_up(started)
        self._keeper = Keeper(
            self._folder,
            self._settings,
            consumers,
            sealed=started.sealed,
            end=lambda: self._end,
            clock_us=clock_us,
        )
        self._keeper.grown(started.bytes)
        self._keeper.start()
        self._thread = threading.Thread(target=self._write, name="bus-writer", daemon=True)
        self._thread.start()

    def append(self, batch: Sequence[Message]) -> Future[None]:
        """See ``Bus.append``. A batch larger than the whole bound is taken when nothing waits."""
        work = Append(runs_of(batch), len(batch))
        refusal = self._keeper.refusal()
        if refusal is not None:
            self._keeper.look()
            if not self._closed:
                self._queue.put(Append([], 0))
            raise Unavailable(refusal)
        with self._lock:
            if self._closed:
                raise Unavailable("the bus is closed")
            full = self._waiting + work.events > self._settings.queue_events
            if full and self._waiting > 0:
                raise Unavailable(f"{self._waiting} events already wait for the log")
            self._waiting += work.events
            self._queue.put(work)
        return work.done

    def healthy(self) -> bool:
        """The writer lives, there is room in the log and in the queue, and no commit failed just
        now. A moment only: who is not ready gets no events, and could not find out that it is.
        """
        room = self._waiting < self._settings.queue_events and self._keeper.refusal() is None
        failing = time.monotonic() - self._failed_at_s < _FAILING_S
        alive = self._thread.is_alive() and self._keeper.alive()
        return alive and room and not (failing or self._closed)

    def status(self) -> BusStatus:
        """As ``BusReader.status``, from memory but for the consumers, who are asked; any thread."""
        return self._keeper.status(active=self._first)

    def close(self) -> None:
        """See ``Bus.close``."""
        with self._lock:
            if self._closed and not self._thread.is_alive():
                return
            self._closed = True
            self._queue.put(Close())
        self._thread.join()
        self._keeper.close()
        if self._log is not None:
            self._log.close()
        self._file_lock.release()

    def _take_up(self, started: Started) -> None:
        """Go on in a segment."""
        self._log: sqlite3.Connection | None = started.connection
        self._first = started.first
        self._end = started.end
        self._began_us = started.began_us
        self._bytes = started.bytes

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
        """Company for ``first``: all that is there (``queue_events`` bounds it), and while that is
        less than ``commit_events``, what comes until the last commit is ``commit_ms`` ago."""
        group, events = [first], first.events
        deadline_s = last_commit_s + self._settings.commit_ms / 1000
        while True:
            enough = events >= self._settings.commit_events
            wait_s = 0.0 if enough else max(0.0, deadline_s - time.monotonic())
            try:
                work = self._queue.get(timeout=wait_s) if wait_s else self._queue.get_nowait()
            except queue.Empty:
                return group, None
            if isinstance(work, Close):
                return group, work
            group.append(work)
            events += work.events

    def _commit(self, group: list[Append]) -> None:
        """One transaction for the group; resolve or fail every future in it."""
        frames = frames_of([run for work in group for run in work.runs], self._end + 1)
        try:
            self._insert(frames)
        except Unavailable as unavailable:
            for work in group:
                work.refuse(unavailable)
        else:
            self._end += sum(frame.count for frame in frames)
            for work in group:
                work.done.set_result(None)
        with self._lock:
            self._waiting -= sum(work.events for work in group)
        if self._log is None or (frames and self._end < frames[-1].first):
            return
        try:
            if frames:
                self._measure(self._log, frames)
            else:
                self._leave_what_is_full(self._log)
        except sqlite3.Error as error:
            log.warning("the log was not measured this time: %s", error)

    def _insert(self, frames: list[Frame]) -> None:
        """All of them or none, and on the disk. Raises ``Unavailable``.

        One frame is one statement, its own transaction. After a failure the same connection rolls
        back: opened afresh, the log would find frames whose fsync failed, and take them for
        committed.
        """
        connection = self._open()
        try:
            if len(frames) > 1:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(log_file.INSERT, [frame.row for frame in frames])
                connection.execute("COMMIT")
            elif frames:
                connection.execute(log_file.INSERT, frames[0].row)
        except sqlite3.Error as error:
            self._failed_at_s = time.monotonic()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise Unavailable(f"the log did not take the events: {error}") from error

    def _open(self) -> sqlite3.Connection:
        """The connection to the segment in use, opened after a roll-over. Raises ``Unavailable``.

        The segment's name is on the disk before anything is in it.
        """
        if self._log is None:
            try:
                self._folder.sync()
                self._log = log_file.open_for_writing(self._folder.file(self._first))
            except (OSError, Unavailable) as error:
                self._failed_at_s = time.monotonic()
                raise Unavailable(f"the log cannot go on in its next segment: {error}") from error
        return self._log

    def _measure(self, connection: sqlite3.Connection, frames: list[Frame]) -> None:
        """After a commit that held: roll over or have the write-ahead log moved, when due."""
        newest_us = accepted_us(frames[-1].heads)
        if self._began_us is None:
            self._began_us = newest_us
        written = sum(len(frame.bodies) + len(frame.heads) for frame in frames)
        self._unmoved_bytes += written
        self._unmeasured_bytes += written
        if self._unmeasured_bytes >= self._settings.segment_bytes // _MEASURES:
            self._bytes = log_file.bytes_of(connection)
            self._keeper.grown(self._bytes)
            self._unmeasured_bytes = 0
        large = self._bytes >= self._settings.segment_bytes
        aged = newest_us - self._began_us > self._settings.segment_s * MICROS
        if large or aged:
            self._roll_over(connection, newest_us)
        elif self._unmoved_bytes >= _CHECKPOINT_BYTES:
            self._unmoved_bytes = 0
            self._keeper.checkpoint(self._first)

    def _leave_what_is_full(self, connection: sqlite3.Connection) -> None:
        """An append was refused. If that is because of a segment that could not be left when it was
        due, no append will come to leave it after."""
        if self._bytes >= self._settings.segment_bytes:
            self._roll_over(connection, log_file.accepted_last_us(connection) or 0)

    def _roll_over(self, connection: sqlite3.Connection, newest_us: int) -> None:
        """Only after a commit that held: what a failed one left would come back in a segment that
        nobody writes to any more. If it can't be done now, the segment gets larger."""
        size = log_file.bytes_of(connection)
        try:
            self._folder.promote_next(self._end + 1)
        except Unavailable as unavailable:
            log.warning("the log did not roll over: %s", unavailable)
            return
        left = Sealed(first=self._first, last=self._end, bytes=size, newest_us=newest_us)
        self._keeper.rolled_over(RolledOver(connection, left))
        self._bytes = self._unmeasured_bytes = self._unmoved_bytes = 0
        self._log, self._first, self._began_us = None, self._end + 1, None


def _locked(folder: Path) -> FileLock:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make the log's folder: {error}") from error
    return FileLock(folder)
