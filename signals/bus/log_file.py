"""The log file of the SQLite bus: its schema, and how each end opens it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from signals.errors import Broken, Unavailable

SCHEMA_VERSION = 1
_SCHEMA = f"""
CREATE TABLE entries (
    offset INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    producer TEXT NOT NULL,
    accepted_us INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE position (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    trimmed_to INTEGER NOT NULL
);
INSERT INTO position VALUES (1, 0);
PRAGMA user_version = {SCHEMA_VERSION};
"""
SYNCHRONOUS = "FULL"
"""What an acknowledgement stands on: COMMIT returns after the fsync of the write-ahead log."""

_BUSY_S = 5.0
_WAL_LIMIT_BYTES = 67_108_864


def open_for_writing(path: Path) -> sqlite3.Connection:
    """The writing connection; creates the file if need be. Raises ``Unavailable``.

    What an earlier writer wrote to the write-ahead log but perhaps did not live to fsync comes back
    with it; it is made durable here, before anybody can build on it.
    """
    connection = None
    try:
        connection = _connect(str(path), uri=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        _create_or_check(connection, path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise Unavailable(f"cannot open the log {path.name}: {error}") from error
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A read-only connection: it can neither write nor checkpoint. Raises ``Unavailable``."""
    if not path.exists():
        raise Unavailable(f"the log {path.name} does not exist yet")
    return _connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)


def last_offset(connection: sqlite3.Connection) -> int:
    """The last offset ever given, whether its entry is still there or trimmed."""
    last = (
        "SELECT MAX((SELECT trimmed_to FROM position),"
        " IFNULL((SELECT MAX(offset) FROM entries), 0))"
    )
    return int(connection.execute(last).fetchone()[0])


def _connect(database: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        database, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=uri
    )


def _create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        connection.executescript("BEGIN IMMEDIATE;" + _SCHEMA + "COMMIT;")
    elif version != SCHEMA_VERSION:
        raise Broken(f"{path.name} has schema {version}, this program knows {SCHEMA_VERSION}")
