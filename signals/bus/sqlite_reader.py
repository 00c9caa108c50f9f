"""The reading end of the SQLite log, from any process: read-only connections, a segment a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from signals.bus import log_file
from signals.bus.folder import Folder
from signals.bus.frames import Frame, entries_of
from signals.bus.port import BusStatus, Consumed, Entry
from signals.bus.retention import offset_of
from signals.errors import Broken, Unavailable

NOBODY: Final[Mapping[str, Consumed]] = MappingProxyType({})

T = TypeVar("T")

_LIST_EVERY = 50


class SqliteBusReader:
    """Opens what it needs when it needs it, and again after a failure. One thread's.

    It keeps the segment that it reads open, so that this may be dropped under it, and the last
    frame, so that reading a few entries at a time splits each frame once.
    """

    def __init__(self, folder: Path, *, consumers: Mapping[str, Consumed] = NOBODY) -> None:
        self._folder = Folder(folder)
        self._consumers = consumers
        self._firsts: list[int] = []
        self._open: tuple[int, sqlite3.Connection] | None = None
        self._frame: list[Entry] = []
        self._quiet = 0

    def read(self, *, after: int, limit: int) -> Sequence[Entry]:
        """See ``BusReader.read``."""
        found, read_bytes = self._of_frame(after, limit), 0
        while len(found) < limit and read_bytes < log_file.READ_BYTES:
            frames = self._frames(found[-1].offset if found else after, limit - len(found))
            if not frames:
                break
            for frame in frames:
                read_bytes += len(frame.bodies)
                self._frame = entries_of(frame)
                at = found[-1].offset if found else after
                found += self._of_frame(at, limit - len(found))
        return found

    def end(self) -> int:
        """See ``BusReader.end``."""
        self._firsts = self._listed()
        newest = self._firsts[-1]
        last = self._ask(newest, log_file.last_offset)
        return newest - 1 if last is None else last

    def status(self) -> BusStatus:
        """See ``BusReader.status``."""
        end, firsts = self.end(), self._firsts
        oldest = (self._ask(first, log_file.accepted_first_us) for first in firsts)
        return BusStatus(
            first=firsts[0],
            end=end,
            consumers={name: offset_of(consumed) for name, consumed in self._consumers.items()},
            bytes=sum(self._folder.bytes_of(first) for first in firsts),
            segments=len(firsts),
            oldest_us=next((each for each in oldest if each is not None), None),
        )

    def close(self) -> None:
        """See ``BusReader.close``; a later read opens the log again."""
        if self._open is not None:
            self._open[1].close()
        self._open, self._firsts, self._frame = None, [], []

    def _of_frame(self, after: int, limit: int) -> list[Entry]:
        """What the frame at hand has of it."""
        if not self._frame or not self._frame[0].offset <= after + 1 <= self._frame[-1].offset:
            return []
        start = after + 1 - self._frame[0].offset
        return self._frame[start : start + max(0, limit)]

    def _frames(self, after: int, limit: int) -> list[Frame]:
        """The next frames of one segment. Raises ``Broken`` for a gap.

        A segment that seems to be read to its end may have been appended to and left since it was
        listed. So the folder is listed again, and only then is nothing found to mean that there is
        nothing, or, when another segment follows, that something is missing.
        """
        if self._firsts:
            frames = self._of_segment(after, limit)
            if frames or not self._list_again(after):
                return frames
        self._firsts = self._listed()
        frames = self._of_segment(after, limit)
        if not frames and self._firsts[-1] > after + 1:
            raise Broken(f"the log has nothing between {after} and {self._following(after)}")
        return frames

    def _list_again(self, after: int) -> bool:
        """Whether something may be in a segment that is not known yet. It would be named by the
        next offset: to look for that name is quicker, at each look into a quiet log, than to list
        hundreds. Now and then they are listed all the same, lest a gap be waited for."""
        if self._firsts[-1] > after + 1:
            return True
        self._quiet += 1
        new = self._firsts[-1] < after + 1 and self._folder.file(after + 1).exists()
        return new or self._quiet % _LIST_EVERY == 0

    def _of_segment(self, after: int, limit: int) -> list[Frame]:
        first = self._holding(after + 1)
        frames = self._ask(first, lambda log: log_file.frames_after(log, after, limit), keep=True)
        if frames and frames[0].first > after + 1:
            raise Broken(f"the log has nothing between {after} and {frames[0].first}")
        return frames

    def _holding(self, offset: int) -> int:
        """The segment that the offset is in, or will be: the open one may have been dropped."""
        known = [*self._firsts, *([self._open[0]] if self._open else [])]
        holding = max((first for first in known if first <= offset), default=None)
        if holding is None:
            raise Broken(
                f"the log starts at {min(known)}: what came after {offset - 1} was dropped unread"
            )
        return holding

    def _following(self, after: int) -> int:
        return min(first for first in self._firsts if first > after + 1)

    def _listed(self) -> list[int]:
        firsts = self._folder.firsts()
        if not firsts:
            raise Unavailable(f"the log {self._folder.path.name} does not exist yet")
        return firsts

    def _ask(
        self, first: int, question: Callable[[sqlite3.Connection], T], *, keep: bool = False
    ) -> T:
        """Of one segment; ``keep`` it open from now on instead of the one that is."""
        try:
            if self._open is not None and self._open[0] == first:
                return question(self._open[1])
            if not keep:
                with closing(self._opened(first)) as connection:
                    return question(connection)
            connection = self._opened(first)
            if self._open is not None:
                self._open[1].close()
            self._open = first, connection
            return question(connection)
        except sqlite3.Error as error:
            self.close()
            raise Unavailable(f"cannot read the log {self._folder.path.name}: {error}") from error

    def _opened(self, first: int) -> sqlite3.Connection:
        """A segment that was left, and whose log has moved into it, is read without a file beside
        it: for that a full disk has no room, and reading is how it gets some."""
        left = bool(self._firsts) and first < self._firsts[-1]
        if left and not self._folder.has_log(first):
            return log_file.open_at_rest(self._folder.file(first))
        return log_file.open_for_reading(self._folder.file(first))
