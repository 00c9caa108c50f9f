"""Who owns the features of a bus that is not shared out: whoever holds the lock on the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from signals.bus.port import BusReader
from signals.file_lock import FileLock


class SoleOwner:
    """An ``Assignment`` of the one partition of a bus on this machine.

    The file's epoch alone would do; the lock refuses a second stage, started by mistake, before it
    takes the file away from the first.
    """

    def __init__(self, reader: BusReader, features: Path) -> None:
        self._owned = {0: reader}
        self._features = features
        self._lock: FileLock | None = None

    def partitions(self) -> Mapping[int, BusReader]:
        """Partition 0. Raises ``Unavailable`` while another process has it."""
        if self._lock is None:
            self._lock = FileLock(self._features)
        return self._owned

    def close(self) -> None:
        """Let another have it. The reader is closed by whoever made it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
