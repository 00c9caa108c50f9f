"""The publisher's own memory: the head that it brought outside last, in a file of its own."""

from __future__ import annotations

import os
from pathlib import Path

from policies.heads import Head, Restore, parsed
from signals.errors import Rejected, Unavailable


class LastHead:
    """A file with one line. A spoilt one is told, and is as none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: str | None = None
        self._read: Head | Restore | None = None
        self._load()

    def line(self) -> str | None:
        """As it was published; None before the first."""
        return self._line

    def read(self) -> Head | Restore | None:
        """What it says."""
        return self._read

    def write(self, line: bytes) -> None:
        """Replace it, durably. Raises ``Unavailable``."""
        new = self._path.with_name(self._path.name + ".new")
        try:
            with new.open("wb") as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            raise Unavailable(f"the last audit head can't be kept: {error}") from error
        self._take(line.decode())

    def _load(self) -> None:
        try:
            raw = self._path.read_text("utf-8").strip()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(f"the last audit head can't be read: {error}") from error
        if raw:
            self._take(raw)

    def _take(self, line: str) -> None:
        try:
            _, statement = parsed(line)
        except Rejected:
            return
        if isinstance(statement, (Head, Restore)):
            self._line, self._read = line, statement
