"""How a store's SQLite file is opened.

The driver is told to begin nothing by itself: SQLite's own default starts a transaction only at
the first write, so a transaction that reads first would fail at once when it comes to write.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from controller.store.settings import StoreSettings

CHECKPOINT_PAGES: Final = 4000
"""16 MB of log. A transition writes a dozen pages, many of them the same ones again and again; four
times SQLite's own 1000 copies them back a quarter as often."""

ASKED_AGAIN_S: Final = 0.05


def writing_engine(path: Path, settings: StoreSettings) -> Engine:
    """One connection; each transaction takes the write lock at its start."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        hide_parameters=True,
        pool_timeout=settings.busy_timeout_ms / 1000,
    )
    pragmas = (
        f"PRAGMA busy_timeout = {settings.busy_timeout_ms}",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
        "PRAGMA foreign_keys = ON",
        f"PRAGMA cache_size = -{settings.cache_kib}",
    )
    _prepare(engine, pragmas, begin="BEGIN IMMEDIATE", patience_ms=settings.busy_timeout_ms)
    return engine


def reading_engine(path: Path, settings: StoreSettings, *, offline: bool = False) -> Engine:
    """Read-only connections for any thread or process; each transaction is one snapshot.

    ``offline``: the file may be a copy that nobody writes, on media that nobody can write.
    """
    mode = "immutable=1" if offline and _lies_still(path) else "mode=ro"
    engine = create_engine(
        f"sqlite:///file:{quote(str(path.absolute()))}?{mode}&uri=true",
        poolclass=QueuePool,
        pool_size=settings.readers,
        max_overflow=0,
        hide_parameters=True,
        pool_timeout=settings.reader_wait_ms / 1000,
    )
    pragmas = (
        "PRAGMA query_only = ON",
        f"PRAGMA busy_timeout = {settings.busy_timeout_ms}",
        f"PRAGMA cache_size = -{settings.cache_kib}",
    )
    _prepare(engine, pragmas, begin="BEGIN", patience_ms=settings.busy_timeout_ms)
    return engine


def _lies_still(path: Path) -> bool:
    """Reading beside a writer needs a shared-memory file, which read-only media can't have."""
    return not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()


def _prepare(engine: Engine, pragmas: tuple[str, ...], *, begin: str, patience_ms: int) -> None:
    """Beside a writer SQLite refuses to change a new file's journal at once, whatever the busy
    timeout: of several that start together all but one would fail. So that one is asked again.
    """

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        patient = Retrying(
            retry=retry_if_exception(_is_locked),
            stop=stop_after_delay(patience_ms / 1000),
            wait=wait_random(0, ASKED_AGAIN_S),
            reraise=True,
        )
        for pragma in pragmas:
            patient(cursor.execute, pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _began(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


def _is_locked(error: BaseException) -> bool:
    """Whether another connection stands in the way."""
    return getattr(error, "sqlite_errorname", None) == "SQLITE_BUSY"
