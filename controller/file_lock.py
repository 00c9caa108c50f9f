"""One process at a time: a lock file that the system lets go of when its holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signals.errors import Unavailable


@contextmanager
def alone(path: Path, *, what: str) -> Iterator[None]:
    """Hold ``path`` locked. Raises ``Unavailable`` at once when another process does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Unavailable(f"{what} is running already ({path} is locked)") from error
        yield
    finally:
        os.close(descriptor)
