"""How the SQLite log starts: take over, tidy up, and find where to go on."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

from msgspec import Struct

from signals.bus import log_file
from signals.bus.folder import Folder, sync_names
from signals.bus.retention import Sealed
from signals.bus.takeover import take_over
from signals.errors import Unavailable


class Started(Struct, frozen=True, kw_only=True):
    """The segment to append to, open, and the sealed ones."""

    connection: sqlite3.Connection
    first: int
    end: int
    bytes: int
    began_us: int | None
    """When its first frame was accepted; None while it is empty."""
    sealed: list[Sealed]


def start(folder: Folder) -> Started:
    """For the folder's only writer. Raises ``Unavailable``, and ``Broken`` for another schema.

    Whatever a killed writer left in write-ahead logs is on the disk when this returns.
    """
    try:
        folder.sweep()
        take_over(folder.path.with_name(folder.path.name + ".db"), folder)
        if not folder.firsts():
            folder.promote_next(1)
        connection, first = _newest(folder)
        sync_names(folder.path.parent)
        end = log_file.last_offset(connection)
        return Started(
            connection=connection,
            first=first,
            end=first - 1 if end is None else end,
            bytes=log_file.bytes_of(connection),
            began_us=log_file.accepted_first_us(connection),
            sealed=_sealed(folder),
        )
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"cannot open the log {folder.path.name}: {error}") from error


def _newest(folder: Folder) -> tuple[sqlite3.Connection, int]:
    """The newest segment, or a new one after it when nothing can be appended to that."""
    first = folder.firsts()[-1]
    folder.sync()
    connection = log_file.open_for_writing(folder.file(first))
    if log_file.version_of(connection) == log_file.SCHEMA_VERSION:
        return connection, first
    end = log_file.last_offset(connection)
    connection.close()
    first = first if end is None else end + 1
    folder.promote_next(first)
    folder.sync()
    return log_file.open_for_writing(folder.file(first)), first


def _sealed(folder: Folder) -> list[Sealed]:
    found = []
    for first, following in pairwise(folder.firsts()):
        file = folder.file(first)
        at_rest = not folder.has_log(first)
        connection = log_file.open_at_rest(file) if at_rest else log_file.open_for_writing(file)
        try:
            found.append(
                Sealed(
                    first=first,
                    last=following - 1,
                    bytes=log_file.bytes_of(connection),
                    newest_us=log_file.accepted_last_us(connection) or 0,
                )
            )
        finally:
            connection.close()
    return found
