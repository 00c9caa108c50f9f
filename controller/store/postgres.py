"""How a store on PostgreSQL is reached: psycopg 3, a schema of its own, and a bound on every wait.

A pooled connection whose server went away is found before it is used, by looking at its socket: a
server that ends a session says so, and that costs no round trip. A server that vanishes without a
word is given up after ``statement_timeout_ms``.
"""

from __future__ import annotations

import hashlib
import select
from pathlib import Path
from typing import Any, Final

from psycopg import Connection as Session
from psycopg import IsolationLevel
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import NullPool, QueuePool

from controller.store.address import StoreAddress
from controller.store.settings import StoreSettings
from signals.errors import Unavailable

OWNING: Final = 0x7472696D
MIGRATING: Final = 0x7472696E
"""First halves of advisory locks' keys: whose they are; the second half says which schema."""
KEEPALIVE: Final = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


def writing_engine(address: StoreAddress, settings: StoreSettings) -> Engine:
    """One connection: what this process writes is written in turn."""
    engine = create_engine(
        _url(address),
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        hide_parameters=True,
        pool_timeout=settings.busy_timeout_ms / 1000,
    )
    limits = {
        "statement_timeout": settings.statement_timeout_ms,
        "lock_timeout": max(1, settings.busy_timeout_ms),
        "idle_in_transaction_session_timeout": settings.statement_timeout_ms,
    }
    _prepare(engine, address, settings, limits)

    @event.listens_for(engine, "connect")
    def _connected(session: Session[Any], _record: object) -> None:
        session.prepare_threshold = None  # What it prepares it forgets, and with it what we did.

    return engine


def reading_engine(
    address: StoreAddress, settings: StoreSettings, *, offline: bool = False
) -> Engine:
    """Read-only; each transaction is one snapshot. ``offline``: a whole history may be read."""
    engine = create_engine(
        _url(address),
        poolclass=QueuePool,
        pool_size=settings.readers,
        max_overflow=0,
        hide_parameters=True,
        pool_timeout=settings.reader_wait_ms / 1000,
    )
    limits = {"lock_timeout": max(1, settings.busy_timeout_ms)}
    if not offline:
        limits["statement_timeout"] = settings.statement_timeout_ms
    _prepare(engine, address, settings, limits)

    @event.listens_for(engine, "connect")
    def _connected(session: Session[Any], _record: object) -> None:
        session.isolation_level = IsolationLevel.REPEATABLE_READ
        session.read_only = True

    return engine


def lone_engine(address: StoreAddress, settings: StoreSettings) -> Engine:
    """Sessions outside every pool and transaction, which may be silent as long as they like."""
    engine = create_engine(
        _url(address),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )
    _prepare(engine, address, settings, {"statement_timeout": settings.statement_timeout_ms})
    return engine


def lives(connection: Connection) -> bool:
    """Whether an idle connection's session goes on, as far as can be seen from here."""
    session = connection.connection.dbapi_connection
    return isinstance(session, Session) and not _ended(session)


def _url(address: StoreAddress) -> URL:
    return make_url(address.url).set(drivername="postgresql+psycopg")


def arguments(
    address: StoreAddress, settings: StoreSettings, limits: dict[str, int]
) -> dict[str, Any]:
    """What libpq is told of every connection, beside the URL."""
    told = {"search_path": f"{address.schema},pg_temp", **limits}
    given: dict[str, Any] = {
        "connect_timeout": settings.connect_timeout_s,
        "application_name": "trimtab",
        "options": " ".join(f"-c {name}={value}" for name, value in told.items()),
        "tcp_user_timeout": settings.statement_timeout_ms,
        **KEEPALIVE,
    }
    if address.password_file is not None:
        given["password"] = _secret(address.password_file)
    return given


def lock_key(schema: str) -> int:
    """The second half of an advisory lock's key: advisory locks are the whole database's."""
    return int.from_bytes(hashlib.sha256(schema.encode()).digest()[:4], "big", signed=True)


def _secret(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"the store's password can't be read from {file}: {error}") from error


def _prepare(
    engine: Engine, address: StoreAddress, settings: StoreSettings, limits: dict[str, int]
) -> None:
    @event.listens_for(engine, "do_connect")
    def _connecting(
        _dialect: object, _record: object, _args: object, given: dict[str, Any]
    ) -> None:
        given.update(arguments(address, settings, limits))

    @event.listens_for(engine, "checkout")
    def _taken(session: Session[Any], _record: object, _proxy: object) -> None:
        if _ended(session):
            raise DisconnectionError("the server ended the session")


def _ended(session: Session[Any]) -> bool:
    """An idle session's socket is readable only when the server ended it, or is about to."""
    if session.closed:
        return True
    poll = select.poll()
    poll.register(session.fileno(), select.POLLIN)
    return bool(poll.poll(0))
