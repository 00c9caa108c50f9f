"""The single file of earlier releases becomes the first segment of the folder."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from signals.bus import log_file
from signals.bus.folder import Folder, remove
from signals.errors import Broken, Unavailable
from signals.file_lock import FileLock


def take_over(single: Path, folder: Folder) -> None:
    """Move ``single``, if there is one, into the folder. For the folder's only writer.

    Killed at any point, the next start does the rest. Raises ``Unavailable`` while an earlier
    release still writes or reads it, ``Broken`` when both it and the folder hold events.
    """
    if single.exists():
        with FileLock(single):
            _move(single, folder)
    remove(single)


def _move(single: Path, folder: Folder) -> None:
    connection = log_file.open_for_writing(single)
    try:
        log_file.show_entries_as_frames(connection)
        first, trimmed = _bounds(connection)
        if not log_file.checkpoint(connection, "TRUNCATE"):
            raise Unavailable(f"{single.name} is still being read, it cannot be moved")
    except sqlite3.Error as error:
        raise Unavailable(f"cannot take over {single.name}: {error}") from error
    finally:
        connection.close()
    taken = folder.firsts()
    if first is not None and taken:
        raise Broken(f"both {single.name} and the folder {folder.path.name} hold events")
    if first is not None:
        os.rename(single, folder.file(first))
    elif not taken:
        folder.promote_next(trimmed + 1)
    folder.sync()


def _bounds(connection: sqlite3.Connection) -> tuple[int | None, int]:
    """The first offset that is there, and the last one that was trimmed."""
    first = connection.execute("SELECT MIN(offset) FROM entries").fetchone()[0]
    return first, int(connection.execute("SELECT trimmed_to FROM position").fetchone()[0])
