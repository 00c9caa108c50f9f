"""A store's database in the hands of its owner: read, rewrite, copy, put back, disarm.

Nothing here goes through the product: it is what somebody with the database's password has.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import psycopg
from msgspec import Struct

from controller.store.address import SCHEMA, StoreAddress, address_of

Row = tuple[object, ...]


class Database(Protocol):
    """``where``: for the product. ``run``: any statement, with ``?`` for parameters."""

    where: StoreAddress

    def run(self, statement: str, *values: object) -> list[Row]:
        """The rows; whatever it changes is committed."""

    def many(self, statement: str, rows: Sequence[Row]) -> None:
        """One statement for many rows, in one transaction."""

    def save(self) -> object:
        """A backup. Nobody may have the store open."""

    def put_back(self, backup: object) -> None:
        """The backup instead of what is there. Nobody may have the store open."""

    def disarmed(self) -> AbstractContextManager[None]:
        """Without triggers inside, and with all of them as they were again afterwards."""


class SqliteFile:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.where = address_of(path)
        self._path = path
        self._saved = 0

    def run(self, statement: str, *values: object) -> list[Row]:
        """See ``Database``."""
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def many(self, statement: str, rows: Sequence[Row]) -> None:
        """See ``Database``."""
        connection = sqlite3.connect(self._path)
        try:
            with connection:
                connection.executemany(statement, rows)
        finally:
            connection.close()

    def save(self) -> Path:
        """See ``Database``."""
        self._saved += 1
        copy = self._path.with_name(f"{self._path.name}.backup{self._saved}")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(self._path, copy)
        return copy

    def put_back(self, backup: object) -> None:
        """See ``Database``."""
        assert isinstance(backup, Path)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        shutil.copy(backup, self._path)

    @contextmanager
    def disarmed(self) -> Iterator[None]:
        """See ``Database``."""
        triggers = self.run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for name, _ in triggers:
            self.run(f"DROP TRIGGER {name}")
        yield
        for _, sql in triggers:
            self.run(str(sql))


class PostgresDatabase:
    """A database of a server where we may do anything."""

    def __init__(self, server: Server, where: StoreAddress) -> None:
        self.where = where
        self._server = server
        self._name = urlsplit(where.url).path.removeprefix("/")

    def run(self, statement: str, *values: object) -> list[Row]:
        """See ``Database``."""
        with self._connected() as connection:
            done = connection.execute(statement.replace("?", "%s").encode(), values or None)
            return list(done.fetchall()) if done.description else []

    def many(self, statement: str, rows: Sequence[Row]) -> None:
        """See ``Database``."""
        with self._connected() as connection, connection.transaction():
            connection.cursor().executemany(statement.replace("?", "%s").encode(), rows)

    def save(self) -> str:
        """See ``Database``."""
        return self._server.database(like=self._name)

    def put_back(self, backup: object) -> None:
        """See ``Database``."""
        self._server.execute(f"DROP DATABASE {self._name} WITH (FORCE)")
        self._server.execute(f"CREATE DATABASE {self._name} TEMPLATE {backup}")

    @contextmanager
    def disarmed(self) -> Iterator[None]:
        """See ``Database``."""
        triggers = self.run(
            """SELECT t.tgname, c.relname, pg_get_triggerdef(t.oid) FROM pg_trigger t
               JOIN pg_class c ON c.oid = t.tgrelid
               WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"""
        )
        for name, table, _ in triggers:
            self.run(f"DROP TRIGGER {name} ON {table}")
        yield
        for name, table, definition in triggers:
            self.run(str(definition))
            self.run(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")

    def _connected(self) -> psycopg.Connection[Row]:
        return psycopg.connect(self.where.url, autocommit=True, options=f"-c search_path={SCHEMA}")


class Server(Protocol):
    """A PostgreSQL server of one's own."""

    def database(self, *, like: str | None = None) -> str:
        """A new database's name."""

    def execute(self, statement: str, database: str = "postgres") -> list[Row]:
        """As a superuser."""


class Backup(Struct, frozen=True):
    """What was saved, and how many entries the log had then."""

    saved: object
    size: int
