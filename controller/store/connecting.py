"""How ``store.db`` is opened, and what its errors mean to callers.

The driver is told to begin nothing by itself: SQLite's own default starts a transaction only at
the first write, so a transaction that reads first would fail at once when it comes to write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from controller.store.settings import StoreSettings
from signals.errors import Broken, Rejected, Unavailable


def file_of(url: str) -> Path:
    """The database file of ``sqlite:///path``. Raises ``Rejected`` for anything else."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise Rejected(
            "the store is a SQLite file", field="store.url", value=url, allowed="sqlite:///PATH"
        )
    return Path(str(parsed.database))


def writing_engine(path: Path, settings: StoreSettings) -> Engine:
    """One connection; each transaction takes the write lock at its start."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=settings.busy_timeout_ms / 1000,
    )
    pragmas = (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
        f"PRAGMA busy_timeout = {settings.busy_timeout_ms}",
        f"PRAGMA cache_size = -{settings.cache_kib}",
    )
    _prepare(engine, pragmas, begin="BEGIN IMMEDIATE")
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
        pool_timeout=settings.reader_wait_ms / 1000,
    )
    pragmas = (
        "PRAGMA query_only = ON",
        f"PRAGMA busy_timeout = {settings.busy_timeout_ms}",
        f"PRAGMA cache_size = -{settings.cache_kib}",
    )
    _prepare(engine, pragmas, begin="BEGIN")
    return engine


def _lies_still(path: Path) -> bool:
    """Reading beside a writer needs a shared-memory file, which read-only media can't have."""
    return not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()


def _prepare(engine: Engine, pragmas: tuple[str, ...], *, begin: str) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _began(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the database's errors into ours: ``Unavailable`` if retrying may help, else ``Broken``.

    ``Unavailable``: locked, missing, disk full. ``Broken``: a constraint that our own checks
    should have kept, or a damaged file.
    """
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable(f"the store has no free connection: {error}") from error
    except OperationalError as error:
        raise Unavailable(f"the store did not answer: {error.orig}") from error
    except DatabaseError as error:
        raise Broken(f"the store refused: {error.orig}") from error
