"""One segment file of the SQLite bus: its schema, and how each end opens it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from signals.bus.frames import Frame, accepted_us
from signals.errors import Broken, Unavailable

SCHEMA_VERSION = 2
ENTRIES_VERSION = 1
"""The single file of earlier releases, a row for each event. It can be read, not appended to."""

_SCHEMA = f"""
CREATE TABLE frames (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    heads BLOB NOT NULL,
    bodies BLOB NOT NULL
);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_ENTRIES_AS_FRAMES = """
CREATE VIEW IF NOT EXISTS frames (first, count, heads, bodies) AS
SELECT offset, 1, json_array(json_array(1, key, producer, accepted_us)), body FROM entries
"""
SYNCHRONOUS = "FULL"
"""What an acknowledgement stands on: COMMIT returns after the fsync of the write-ahead log."""

INSERT = "INSERT INTO frames (first, count, heads, bodies) VALUES (?, ?, ?, ?)"

READ_BYTES = 16_777_216
"""Of bodies, at one look: what a reader asks for in events may be long ones."""

_BUSY_S = 5.0


def create(path: Path) -> None:
    """Make an empty segment, on the disk and closed: one file. Raises ``Unavailable``.

    One fsync, at the end: half a file is thrown away at the next start.
    """
    connection = None
    try:
        connection = _connect(str(path), uri=False)
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript("BEGIN IMMEDIATE;" + _SCHEMA + "COMMIT;")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        _fsync(path)
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"cannot make the log {path.name}: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A writing connection to an existing segment. Raises ``Unavailable``, ``Broken``.

    What an earlier writer wrote to the write-ahead log but perhaps did not live to fsync comes back
    with it; it is made durable here, before anybody can build on it. From then on checkpoints are
    the keeper's: no commit waits for one.
    """
    connection = None
    try:
        connection = _connect(_uri(path, "rw"), uri=True)
        _set_up(connection)
        version = version_of(connection)
        if version not in (ENTRIES_VERSION, SCHEMA_VERSION):
            raise Broken(f"{path.name} has schema {version}, this program knows {SCHEMA_VERSION}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (sqlite3.Error, Broken) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, Broken):
            raise
        raise Unavailable(f"cannot open the log {path.name}: {error}") from error
    return connection


def open_beside(path: Path) -> sqlite3.Connection:
    """A second connection to a segment that its writer has open. Raises ``sqlite3.Error``."""
    connection = _connect(_uri(path, "rw"), uri=True)
    _set_up(connection)
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A read-only connection: it can neither write nor checkpoint. Raises ``sqlite3.Error``."""
    return _connect(_uri(path, "ro"), uri=True)


def open_at_rest(path: Path) -> sqlite3.Connection:
    """A connection to a file that has no write-ahead log and that nobody writes: it leaves nothing
    beside it. Raises ``sqlite3.Error``."""
    return _connect(_uri(path, "ro") + "&immutable=1", uri=True)


def checkpoint(connection: sqlite3.Connection, mode: str) -> bool:
    """Move the write-ahead log into the file; whether all of it is there now."""
    busy, logged, moved = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    return not busy and logged == moved


def show_entries_as_frames(connection: sqlite3.Connection) -> None:
    """Make the single file of earlier releases readable like any segment. Idempotent."""
    connection.execute(_ENTRIES_AS_FRAMES)


def version_of(connection: sqlite3.Connection) -> int:
    """The schema; 0 for an empty file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def bytes_of(connection: sqlite3.Connection) -> int:
    """What the segment takes once its write-ahead log has moved into it."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])


def last_offset(connection: sqlite3.Connection) -> int | None:
    """The last offset in the segment; None when it is empty."""
    last = "SELECT first + count - 1 FROM frames ORDER BY first DESC LIMIT 1"
    row = connection.execute(last).fetchone()
    return int(row[0]) if row else None


def accepted_first_us(connection: sqlite3.Connection) -> int | None:
    """When the oldest event was accepted; None when there is none."""
    return _accepted_us(connection, "ASC")


def accepted_last_us(connection: sqlite3.Connection) -> int | None:
    """When the last frame was accepted; None when there is none."""
    return _accepted_us(connection, "DESC")


def _accepted_us(connection: sqlite3.Connection, order: str) -> int | None:
    row = connection.execute(f"SELECT heads FROM frames ORDER BY first {order} LIMIT 1").fetchone()
    return accepted_us(row[0]) if row else None


def frames_after(connection: sqlite3.Connection, after: int, limit: int) -> list[Frame]:
    """Frames that hold events with offsets above ``after``, until they hold ``limit`` of them or
    ``READ_BYTES``."""
    rows = connection.execute(
        "SELECT first, count, heads, bodies FROM frames WHERE first + count > ?1 AND first >="
        " IFNULL((SELECT first FROM frames WHERE first <= ?1 ORDER BY first DESC LIMIT 1), ?1)"
        " ORDER BY first",
        (after + 1,),
    )
    found, read_bytes = [], 0
    for row in rows:
        found.append(Frame(*row))
        read_bytes += len(found[-1].bodies)
        enough = found[-1].first + found[-1].count - 1 - after >= limit
        if enough or read_bytes >= READ_BYTES:
            break
    rows.close()
    return found


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")


def _connect(database: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        database, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=uri
    )


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
