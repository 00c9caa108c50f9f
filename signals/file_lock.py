"""One writer per file: a lock that the operating system drops when its process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from signals.errors import Unavailable


class FileLock:
    """Holds ``<path>.lock`` until released. Raises ``Unavailable`` when another has it."""

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unavailable(f"cannot lock {path.name}: {error}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise Unavailable(f"another process holds {path.name}.lock") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()

    def release(self) -> None:
        """Let another writer in."""
        os.close(self._fd)
