"""The tables of ``features.db``. One writer: the feature stage.

What is queried by is a column; the rest of a row is its JSON, so ``sqlite3 features.db`` and
``json_extract`` still answer a curious person. ``seen_<day>_<part>`` tables are
made as days come.

A version is a script that is run on the version before; a new file runs all of them, in order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from signals.errors import Broken, Unavailable

BUSY_S = 5.0
_WAL_LIMIT_BYTES = 67_108_864
_CHECKPOINT_PAGES = 8_000
"""32 MB: a page that many batches write is copied into the file once; a tenth less work an event
than with SQLite's 4 MB."""
_CACHE_KIB = 32_768
"""Pages kept in memory. With SQLite's 2 MB the upper pages of a long history's indexes are read
again and again."""
_STATEMENTS = 1024
"""Kept prepared: each part of the ids that were seen is asked by its own."""

_VERSION_1 = """
CREATE TABLE position (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    bus_offset INTEGER NOT NULL,
    accepted_us INTEGER NOT NULL,
    cursor INTEGER NOT NULL
);
INSERT INTO position VALUES (1, 0, 0, 0);
CREATE TABLE watermarks (target TEXT PRIMARY KEY, us INTEGER NOT NULL);

CREATE TABLE engines (
    target TEXT NOT NULL,
    replica TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    first_us INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    state TEXT NOT NULL,
    UNIQUE (target, replica, incarnation)
);
CREATE INDEX engines_by_time ON engines (target, replica, last_us);

CREATE TABLE requests (
    request_id TEXT NOT NULL UNIQUE,
    target TEXT NOT NULL,
    intent TEXT NOT NULL,
    arrival_us INTEGER NOT NULL,
    trial TEXT NOT NULL,
    block INTEGER NOT NULL,
    good INTEGER,
    due_us INTEGER,
    external_id TEXT,
    row TEXT NOT NULL
);
CREATE INDEX requests_by_arrival ON requests (target, arrival_us);
CREATE INDEX requests_by_intent ON requests (target, intent, arrival_us);
CREATE INDEX requests_bad ON requests (target, arrival_us) WHERE good = 0;
CREATE INDEX requests_due ON requests (target, due_us) WHERE due_us IS NOT NULL;
CREATE INDEX requests_by_trial ON requests (trial, block, arrival_us) WHERE trial <> '';
CREATE INDEX requests_by_external ON requests (target, external_id, arrival_us)
    WHERE external_id IS NOT NULL;

CREATE TABLE seconds (
    target TEXT NOT NULL,
    to_us INTEGER NOT NULL,
    trial TEXT NOT NULL,
    block INTEGER NOT NULL,
    row TEXT NOT NULL
);
CREATE INDEX seconds_by_time ON seconds (target, to_us);
CREATE INDEX seconds_by_trial ON seconds (trial, block, to_us) WHERE trial <> '';

CREATE TABLE outcomes (
    bus_offset INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL,
    time_us INTEGER NOT NULL,
    row TEXT NOT NULL
);
CREATE INDEX outcomes_by_request ON outcomes (request_id);
CREATE INDEX outcomes_by_time ON outcomes (time_us);

CREATE TABLE orphans (
    bus_offset INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    request_id TEXT,
    external_id TEXT,
    accepted_us INTEGER NOT NULL,
    signal TEXT NOT NULL
);
CREATE INDEX orphans_by_request ON orphans (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX orphans_by_external ON orphans (target, external_id) WHERE external_id IS NOT NULL;

CREATE TABLE windows (
    target TEXT NOT NULL,
    width_s INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    replica TEXT NOT NULL,
    intent TEXT NOT NULL,
    digest TEXT NOT NULL,
    trial TEXT NOT NULL,
    block INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    incomplete INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    counts TEXT NOT NULL,
    UNIQUE (target, width_s, start_us, replica, intent, digest, trial, block)
);
CREATE UNIQUE INDEX windows_by_cursor ON windows (cursor);
CREATE INDEX windows_open ON windows (target, start_us) WHERE closed = 0;

CREATE TABLE dead_letters (
    bus_offset INTEGER PRIMARY KEY,
    target TEXT NOT NULL,
    producer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    accepted_us INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE producers (producer TEXT PRIMARY KEY, counts TEXT NOT NULL);
"""

_VERSION_2 = """
ALTER TABLE position ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
"""

_VERSION_3 = """
ALTER TABLE dead_letters ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letters ADD COLUMN owns_id INTEGER NOT NULL DEFAULT 0;
UPDATE dead_letters SET owns_id = 1
    WHERE reason IN ('undeclared_metric', 'outside_attribution', 'orphan_expired');
CREATE INDEX letters_by_reason ON dead_letters (reason, bus_offset);
CREATE INDEX letters_by_producer ON dead_letters (producer, bus_offset);
CREATE INDEX letters_not_quarantined ON dead_letters (bus_offset) WHERE reason <> 'quarantined';
CREATE TABLE shelves (
    shelf TEXT PRIMARY KEY,
    letters INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    dropped INTEGER NOT NULL
);
INSERT INTO shelves SELECT 'dead', COUNT(*), COALESCE(SUM(LENGTH(body)), 0), 0 FROM dead_letters;
INSERT INTO shelves VALUES ('quarantined', 0, 0, 0);
ALTER TABLE orphans ADD COLUMN producer TEXT NOT NULL DEFAULT '';
UPDATE orphans SET producer = json_extract(signal, '$.producer');
CREATE INDEX orphans_by_producer ON orphans (producer, bus_offset);
UPDATE producers SET counts = json_object(
    'last_us', counts ->> 'last_us',
    'kinds', json_object(
        CASE WHEN counts ->> 'joined' + counts ->> 'orphaned' > 0 THEN 'business' ELSE 'basic' END,
        json(counts)));
CREATE TABLE quarantine (producer TEXT PRIMARY KEY, row TEXT NOT NULL);
CREATE TABLE commands (bus_offset INTEGER PRIMARY KEY, id TEXT NOT NULL, outcome TEXT NOT NULL);
CREATE INDEX commands_by_id ON commands (id);
CREATE TABLE run (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), state TEXT NOT NULL);
"""

_VERSION_4 = """
ALTER TABLE requests ADD COLUMN session_id TEXT;
UPDATE requests SET session_id = json_extract(row, '$.session_id');
CREATE INDEX requests_by_session ON requests (target, session_id, arrival_us)
    WHERE session_id IS NOT NULL;
ALTER TABLE orphans ADD COLUMN session_id TEXT;
ALTER TABLE orphans ADD COLUMN time_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE orphans ADD COLUMN due_us INTEGER;
ALTER TABLE orphans ADD COLUMN give_up_us INTEGER;
UPDATE orphans SET session_id = json_extract(signal, '$.session_id'),
    time_us = json_extract(signal, '$.time_us');
CREATE INDEX orphans_by_session ON orphans (target, session_id, time_us)
    WHERE session_id IS NOT NULL AND due_us IS NULL;
CREATE INDEX orphans_due ON orphans (target, due_us) WHERE due_us IS NOT NULL;
CREATE INDEX orphans_giving_up ON orphans (give_up_us) WHERE due_us IS NOT NULL;
CREATE TABLE outcome_values (
    request_id TEXT NOT NULL,
    metric TEXT NOT NULL,
    producer TEXT NOT NULL,
    micros INTEGER NOT NULL,
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    arrival_us INTEGER NOT NULL,
    UNIQUE (request_id, metric, producer)
);
CREATE INDEX outcome_values_by_arrival ON outcome_values (arrival_us);
UPDATE windows SET counts = json_remove(counts, '$.outcomes');
ALTER TABLE windows ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
DROP INDEX windows_open;
CREATE INDEX windows_open ON windows (target, start_us + width_s * 1000000, width_s)
    WHERE closed = 0;
"""

_VERSION_5 = """
CREATE TABLE seen_filters (part TEXT PRIMARY KEY, keys INTEGER NOT NULL, bits BLOB NOT NULL);
"""

_VERSION_6 = """
CREATE TABLE edge_parts (
    target TEXT NOT NULL,
    width_s INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    replica TEXT NOT NULL,
    intent TEXT NOT NULL,
    digest TEXT NOT NULL,
    trial TEXT NOT NULL,
    block INTEGER NOT NULL,
    source TEXT NOT NULL,
    revision INTEGER NOT NULL,
    counts TEXT NOT NULL,
    UNIQUE (target, width_s, start_us, replica, intent, digest, trial, block, source)
);
"""

_VERSION_7 = """
CREATE INDEX orphans_by_acceptance ON orphans (accepted_us);
"""

_SCRIPTS = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
)
"""Statements end in a semicolon at the end of a line, and nowhere else is one."""
SCHEMA_VERSION = len(_SCRIPTS)


@contextmanager
def passing() -> Iterator[None]:
    """Disk, lock and space errors may pass: ``Unavailable``. The others are ours: raised."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(f"the feature store: {error}") from error


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A writing connection; creates the file if need be, and brings an older one up to date.

    ``synchronous=FULL``, though the bus could replay what a power cut took: readers remember
    cursors, and a cursor once published must not come back with another meaning. Raises
    ``sqlite3.Error``, or ``Broken`` for a newer version's file.
    """
    connection = sqlite3.connect(
        path,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # What is deleted within a page is overwritten there: it costs no I/O.
        connection.execute("PRAGMA secure_delete = FAST")
        with transaction(connection):
            _bring_up_to_date(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def overwriting(connection: sqlite3.Connection, *, wanted: bool) -> Iterator[None]:
    """What the transaction inside deletes is overwritten, and the log beside the file cut off.

    ``wanted`` False: as ever. A reader that is in the middle of something keeps the log for now;
    then it goes when it is next begun anew. Pages that were given back earlier, whole, keep what
    they held until they are used again, or ``VACUUM`` is run.
    """
    if not wanted:
        yield
        return
    connection.execute("PRAGMA secure_delete = ON")
    try:
        yield
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.execute("PRAGMA secure_delete = FAST")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is written, or nothing. The write lock is taken at once."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise Broken(f"{path.name} has schema {version}, this program knows {SCHEMA_VERSION}")
    for script in _SCRIPTS[version:]:
        for statement in script.split(";\n"):
            connection.execute(statement)
    if version < SCHEMA_VERSION:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A read-only connection. Raises ``Unavailable`` until the stage has made the file."""
    if not path.exists():
        raise Unavailable(f"{path.name} does not exist yet")
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        connection.close()
        raise Unavailable(f"{path.name} has schema {version}, this program reads {SCHEMA_VERSION}")
    return connection
