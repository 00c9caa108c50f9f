"""The thread beside the writer: whatever takes the disk's time and no commit should wait for.

It makes the next segment ahead, moves write-ahead logs into their files, seals what was rolled
over, and drops what has had its time.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from signals.bus import log_file, retention
from signals.bus.folder import Folder
from signals.bus.port import BusStatus, Consumed
from signals.bus.retention import Limits, Sealed
from signals.bus.settings import BusSettings
from signals.errors import Unavailable
from signals.events import MICROS

log = logging.getLogger(__name__)

_FULL_POLL_S = 0.1
"""How often it is looked whether a full log may take events again."""


_READERS_MS = 100
"""How long a segment that was left is waited for; what a reader is in is tried again."""


class RolledOver(Struct, frozen=True):
    """A segment that the writer has left, with its last connection to it."""

    connection: sqlite3.Connection
    segment: Sealed


class _Checkpoint(Struct, frozen=True):
    first: int


class _Stop(Struct, frozen=True):
    pass


class _Look(Struct, frozen=True):
    pass


class Keeper:
    """Owns the sealed segments. ``end`` gives the last committed offset."""

    def __init__(
        self,
        folder: Folder,
        settings: BusSettings,
        consumers: Mapping[str, Consumed],
        *,
        sealed: list[Sealed],
        end: Callable[[], int],
        clock_us: Callable[[], int],
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._consumers = consumers
        self._sealed = sealed
        self._end = end
        self._clock_us = clock_us
        self._jobs: queue.SimpleQueue[RolledOver | _Checkpoint | _Look | _Stop] = (
            queue.SimpleQueue()
        )
        self._asked = False
        self._unmoved: list[RolledOver] = []
        self._offsets: Mapping[str, int | None] = dict.fromkeys(consumers)
        self._lock = threading.Lock()
        self._sealed_bytes = sum(segment.bytes for segment in sealed)
        self._active_bytes = 0
        self._thread = threading.Thread(target=self._keep, name="bus-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def alive(self) -> bool:
        """Whether old segments will go and the next one will be made."""
        return self._thread.is_alive()

    def status(self, *, active: int) -> BusStatus:
        """See ``SqliteBus.status``; ``active``: the first offset of the segment in use."""
        sealed = list(self._sealed)
        return BusStatus(
            first=sealed[0].first if sealed else active,
            end=self._end(),
            consumers=self._ask(),
            bytes=self._held_bytes(),
            segments=len(sealed) + 1,
            oldest_us=None,
        )

    def refusal(self) -> str | None:
        """Why the log takes no more events, None while it does."""
        held = self._held_bytes()
        if held <= self._settings.hard_bytes:
            return None
        limit = f"the log holds {held} bytes, the most is {self._settings.hard_bytes}"
        return f"{limit}: {retention.who_holds(self._offsets, end=self._end())}"

    def grown(self, active_bytes: int) -> None:
        """The segment in use has this size now."""
        with self._lock:
            self._active_bytes = active_bytes

    def rolled_over(self, left: RolledOver) -> None:
        """The writer has gone on to the next segment."""
        with self._lock:
            self._sealed_bytes += left.segment.bytes
            self._active_bytes = 0
        self._jobs.put(left)

    def checkpoint(self, first: int) -> None:
        """The write-ahead log of the active segment has grown."""
        self._jobs.put(_Checkpoint(first))

    def look(self) -> None:
        """See now whether something may go; asked again before it did, it does so once."""
        if not self._asked:
            self._asked = True
            self._jobs.put(_Look())

    def close(self) -> None:
        """Finish what was handed over, then stop."""
        self._jobs.put(_Stop())
        self._thread.join()
        for left in self._unmoved:
            left.connection.close()

    def _keep(self) -> None:
        look_at_s = 0.0
        while True:
            try:
                job = self._jobs.get(timeout=max(0.0, look_at_s - time.monotonic()))
            except queue.Empty:
                job = _Look()
            if isinstance(job, _Stop):
                return
            self._do(job)
            if not isinstance(job, _Checkpoint):
                full = self.refusal() is not None
                look_at_s = time.monotonic() + (
                    _FULL_POLL_S if full else self._settings.trim_every_s
                )

    def _do(self, job: RolledOver | _Checkpoint | _Look) -> None:
        if isinstance(job, _Checkpoint):
            self._try(lambda: self._move_log_of(job.first))
            return
        self._asked = False
        if isinstance(job, RolledOver):
            self._sealed.append(job.segment)
            self._unmoved.append(job)
        for step in (self._folder.make_next, self._move_logs, self._drop_old):
            self._try(step)

    def _try(self, step: Callable[[], None]) -> None:
        """Each step by itself: on a full disk only the dropping makes room for the others."""
        try:
            step()
        except (sqlite3.Error, OSError, Unavailable) as error:
            log.warning("the log was not tidied this time: %s", error)

    def _move_log_of(self, first: int) -> None:
        """Of the active segment, beside its writer, who commits meanwhile."""
        connection = log_file.open_beside(self._folder.file(first))
        try:
            log_file.checkpoint(connection, "PASSIVE")
        finally:
            connection.close()

    def _move_logs(self) -> None:
        """Of the segments left. One that a reader is in waits for the next time."""
        for left in self._unmoved:
            left.connection.execute(f"PRAGMA busy_timeout = {_READERS_MS}")
        while self._unmoved and log_file.checkpoint(self._unmoved[0].connection, "TRUNCATE"):
            self._unmoved.pop(0).connection.close()

    def _drop_old(self) -> None:
        self._offsets = self._ask()
        limits = Limits(
            before_us=self._clock_us() - self._settings.retention_s * MICROS,
            max_bytes=self._settings.max_bytes,
        )
        count = retention.droppable(
            self._sealed,
            total_bytes=self._held_bytes(),
            consumed=retention.behind_all(self._offsets),
            limits=limits,
        )
        for segment in self._sealed[:count]:
            self._folder.drop(segment.first)
            self._sealed.pop(0)
            with self._lock:
                self._sealed_bytes -= segment.bytes

    def _held_bytes(self) -> int:
        with self._lock:
            return self._sealed_bytes + self._active_bytes

    def _ask(self) -> dict[str, int | None]:
        return {name: retention.offset_of(consumed) for name, consumed in self._consumers.items()}
