"""A read-only connection to ``features.db`` that opens itself, for any process and thread."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

from signals.errors import Unavailable
from signals.features import schema
from signals.features.schema import passing
from signals.settings import FeatureSettings


class Reading:
    """Opens the file at the first call, and again after a failure.

    A call is one indexed query; a poll that finds nothing new costs some tens of microseconds.
    """

    def __init__(
        self, path: Path, *, partition: int = 0, settings: FeatureSettings | None = None
    ) -> None:
        """``settings``: from when on a clock is flagged."""
        self._path = path
        self._partition = partition
        self._settings = settings or FeatureSettings()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    @property
    def partition(self) -> int:
        """Whose features these are."""
        return self._partition

    def hold(self) -> None:
        """From now on read the file as it is now, until it is closed. Not for long: its write-ahead
        log cannot shrink meanwhile."""
        self._rows("BEGIN")
        self._rows("SELECT 1 FROM position")

    def close(self) -> None:
        """Let go of the file; a later call opens it again."""
        with self._lock:
            self._close()

    def _rows(self, select: str, *arguments: str | int) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                with passing():
                    if self._db is None:
                        self._db = schema.open_for_reading(self._path)
                    return self._db.execute(select, arguments).fetchall()
            except Unavailable:
                self._close()
                raise

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
