"""The folder of the SQLite bus: its segment files, by name, oldest first.

::

    bus/00000000000000000001.db   the oldest: sealed, only read, dropped whole
    bus/00000000000000120034.db   its name is the first offset that it may hold
    bus/00000000000000240971.db   the newest: appended to
    bus/next.db                   the next one, empty, made ahead so that a roll-over is a rename
    bus/making.db                 becomes next.db when it is whole

The newest file's name alone keeps offsets from coming back, whatever else was dropped.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Final

from signals.bus import log_file
from signals.errors import Unavailable

NEXT: Final = "next.db"
_MAKING: Final = "making.db"
_BESIDES: Final = ("-wal", "-shm")
_SEGMENT: Final = re.compile(r"^(\d{20})\.db$")


class Folder:
    """Names and files; thread-safe. Which segments may go is not decided here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._making = threading.Lock()

    def firsts(self) -> list[int]:
        """The first offset of each segment, oldest first. Raises ``Unavailable``."""
        try:
            names = os.listdir(self.path)
        except OSError as error:
            detail = f"cannot read the log's folder {self.path.name}: {error.strerror}"
            raise Unavailable(detail) from error
        return sorted(int(found[1]) for found in map(_SEGMENT.match, names) if found)

    def file(self, first: int) -> Path:
        """The segment whose offsets start at ``first``."""
        return self.path / f"{first:020d}.db"

    def bytes_of(self, first: int) -> int:
        """What a segment has on the disk; 0 once it is gone."""
        return _size(self.file(first)) + _size(self._log(first))

    def has_log(self, first: int) -> bool:
        """Whether something may be in its write-ahead log that is not in the file."""
        return _size(self._log(first)) > 0

    def make_next(self) -> None:
        """Make the next segment unless it is there. Raises ``Unavailable``."""
        with self._making:
            self._make_next()

    def promote_next(self, first: int) -> None:
        """Let the next segment be the one that starts at ``first``. Raises ``Unavailable``.

        Nothing has changed then. It may be lost with the power until ``sync``.
        """
        with self._making:
            self._make_next()
            try:
                os.rename(self.path / NEXT, self.file(first))
            except OSError as error:
                raise Unavailable(f"cannot name the log's next segment: {error}") from error

    def sync(self) -> None:
        """Make the names durable. Raises ``OSError``."""
        sync_names(self.path)

    def drop(self, first: int) -> None:
        """Remove a segment, also under a reader, who keeps what it has open. Raises ``OSError``."""
        remove(self.file(first))

    def sweep(self) -> None:
        """Remove what a killed writer, or a reader of a dropped segment, left behind.

        Raises ``OSError``. Only for the writer, and before it makes anything.
        """
        remove(self.path / NEXT)
        remove(self.path / _MAKING)
        for besides in _BESIDES:
            for stray in self.path.glob(f"*.db{besides}"):
                if not stray.with_name(stray.name.removesuffix(besides)).exists():
                    stray.unlink(missing_ok=True)

    def _log(self, first: int) -> Path:
        return self.path / f"{first:020d}.db-wal"

    def _make_next(self) -> None:
        if not (self.path / NEXT).exists():
            making = self.path / _MAKING
            try:
                remove(making)
                log_file.create(making)
                os.rename(making, self.path / NEXT)
            except OSError as error:
                raise Unavailable(f"cannot make the log's next segment: {error}") from error


def sync_names(folder: Path) -> None:
    """Make durable which files a folder has. Raises ``OSError``."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(file: Path) -> None:
    """A log file, then its write-ahead log: never the other way round. Raises ``OSError``."""
    for name in (file.name, *(file.name + besides for besides in _BESIDES)):
        file.with_name(name).unlink(missing_ok=True)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
