"""One process owns a store: the one that may write it.

On SQLite that is a lock of the operating system beside the file. On PostgreSQL it is an advisory
lock of a session of its own, which the server drops when that session ends, so it is taken again
whenever the store had to be reached anew. Between the two moments somebody else may have taken it;
then, and where a network hides one owner from another, the epoch decides: see ``Appending.finish``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, text

from controller.store import postgres
from controller.store.address import StoreAddress, address_of
from controller.store.connecting import reading_engine, translated
from controller.store.settings import StoreSettings
from signals.errors import Fenced, Unavailable
from signals.file_lock import FileLock


class Owner(Protocol):
    """Whoever holds the lock."""

    def renew(self) -> None:
        """Take it again where it was lost. Raises ``Fenced`` when another has it."""


@contextmanager
def owning(address: StoreAddress, settings: StoreSettings | None = None) -> Iterator[Owner]:
    """Own the store meanwhile. Raises ``Unavailable`` when another process does."""
    if address.file is not None:
        with FileLock(address.file):
            yield FileOwner()
        return
    owner = SessionOwner(address, settings or StoreSettings())
    try:
        owner.take()
        yield owner
    finally:
        owner.close()


class FileOwner:
    """The operating system's lock: as long as the process lives, it is held."""

    def renew(self) -> None:
        """It can't be lost."""


class SessionOwner:
    """An advisory lock of PostgreSQL, and the session that holds it."""

    def __init__(self, address: StoreAddress, settings: StoreSettings) -> None:
        self._address = address
        self._engine = postgres.lone_engine(address, settings)
        self._session: Connection | None = None

    def take(self) -> None:
        """Raises ``Unavailable`` when another process has it."""
        with translated():
            self._session = self._engine.connect()
            if not self._lock(self._session):
                raise Unavailable(f"another process owns {self._address.words()}")

    def renew(self) -> None:
        """Where the session has ended, a new one. Raises ``Fenced``, ``Unavailable``."""
        if self._session is not None and postgres.lives(self._session):
            return
        self._end()
        with translated():
            self._session = self._engine.connect()
            if not self._lock(self._session):
                self._end()
                raise Fenced(f"another process has taken {self._address.words()} over")

    def close(self) -> None:
        """Let another writer in."""
        self._end()
        self._engine.dispose()

    def _lock(self, session: Connection) -> bool:
        query = text("SELECT pg_try_advisory_lock(:kind, :key)")
        key = postgres.lock_key(self._address.schema)
        return bool(session.execute(query, {"kind": postgres.OWNING, "key": key}).scalar_one())

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.invalidate()
            session.close()


def exists(where: StoreAddress, settings: StoreSettings | None = None) -> bool:
    """Whether somebody has set a store up there. Raises ``Unavailable``."""
    address = address_of(where)
    if address.file is not None:
        return address.file.exists()
    engine = reading_engine(address, settings or StoreSettings())
    try:
        with translated(), engine.begin() as connection:
            query = text("SELECT to_regclass('alembic_version') IS NOT NULL")
            return bool(connection.execute(query).scalar_one())
    finally:
        engine.dispose()
