"""The publisher's own memory: a line that it brought outside, or has still to bring, in a file."""

from __future__ import annotations

import os
from pathlib import Path

from policies.heads import Statement, parsed
from signals.errors import Rejected, Unavailable


class KeptLine:
    """A file with one signed statement, or none. A spoilt one is as none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: tuple[str | None, Statement | None] = (None, None)
        self._load()

    def kept(self) -> tuple[str | None, Statement | None]:
        """The line and what it says, of one moment; from any thread."""
        return self._kept

    def line(self) -> str | None:
        """As it is signed."""
        return self._kept[0]

    def read(self) -> Statement | None:
        """What it says."""
        return self._kept[1]

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
            raise Unavailable(f"the audit's last statement can't be kept: {error}") from error
        self._take(line.decode())

    def clear(self) -> None:
        """Forget it."""
        self._path.unlink(missing_ok=True)
        self._kept = (None, None)

    def _load(self) -> None:
        try:
            raw = self._path.read_text("utf-8").strip()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(f"the audit's last statement can't be read: {error}") from error
        if raw:
            self._take(raw)

    def _take(self, line: str) -> None:
        try:
            _, statement = parsed(line)
        except Rejected:
            return
        self._kept = (line, statement)
