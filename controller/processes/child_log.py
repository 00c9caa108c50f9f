"""A child's log: one file that is rotated by size, so a chatty child never fills the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


class RotatingLog:
    """Appends lines to ``path``; older files are ``path.1``, ``path.2``, … up to ``files - 1``.

    Not thread-safe: one writer. Raises ``OSError`` when the disk refuses.
    """

    def __init__(self, path: Path, *, max_bytes: int, files: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._out: BinaryIO = path.open("ab", buffering=0)
        self._size = self._out.seek(0, os.SEEK_END)

    def write(self, line: bytes) -> None:
        """Append one line, rotating first when it would not fit."""
        if self._size and self._size + len(line) > self._max_bytes:
            self._rotate()
        self._out.write(line)
        self._size += len(line)

    def close(self) -> None:
        """Idempotent."""
        self._out.close()

    def _rotate(self) -> None:
        self._out.close()
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self._out = self._path.open("wb", buffering=0)
        self._size = 0

    def _numbered(self, number: int) -> Path:
        return self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")


def tail(path: Path, lines: int = 8) -> str:
    """The last lines of a log, for a message; "" when there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 200 * lines))
        return b"\n".join(log.read().splitlines()[-lines:]).decode("utf-8", "replace")
