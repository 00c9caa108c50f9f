"""Statements that every transition sends, through the database's own driver.

What a toolkit does around each statement (its compiled form, its result, its events) takes longer
on SQLite than the statement itself. A transition sends the same few statements again and again and
asks only how many rows they changed, so these go to the driver in the transaction that the toolkit
began and ends. An error is the same to callers, either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from controller.store import prepared

Statement: TypeAlias = tuple[str, Mapping[str, Any] | Sequence[Any]]
"""Its text, and the values that it names."""
PREPARED: Final = "trimtab_prepared"
"""Under what name a session keeps the names of its prepared statements."""


def sent(connection: Connection, statement: str, values: Mapping[str, Any] | Sequence[Any]) -> int:
    """How many rows it changed. Raises ``DBAPIError``, as SQLAlchemy does for its own."""
    return sent_together(connection, [(statement, values)])[0]


def sent_together(connection: Connection, statements: Sequence[Statement]) -> list[int]:
    """How many rows each changed: one wait for all, where the database lies behind a wire.

    Raises ``DBAPIError`` for the first that failed; those after it were not run.
    """
    session: Any = connection.connection.dbapi_connection
    named = _named(connection, statements)
    try:
        if named is not None:
            return prepared.changed(session, connection.info.setdefault(PREPARED, {}), named)
        return [session.execute(text, values).rowcount for text, values in statements]
    except _errors(connection) as error:
        raise _failed(connection, error) from error


def unsent(connection: Connection) -> bool:
    """Whether the transaction is one on PostgreSQL that the server has not heard of yet."""
    session: Any = connection.connection.dbapi_connection
    return connection.dialect.name == "postgresql" and prepared.idle(session)


def committed(connection: Connection, statements: Sequence[Statement]) -> bool:
    """Whether they, each ``sure`` and nothing sent before, were the transaction, durable now.

    Where not, nothing was done, and they can be sent otherwise. Raises ``DBAPIError``.
    """
    session: Any = connection.connection.dbapi_connection
    named = _named(connection, statements)
    if named is None:
        return False
    try:
        return prepared.committed(session, connection.info.setdefault(PREPARED, {}), named)
    except _errors(connection) as error:
        raise _failed(connection, error) from error


def all_sent(connection: Connection, statement: str, rows: Iterable[Sequence[Any]]) -> None:
    """Once for each row. Raises ``DBAPIError``."""
    session: Any = connection.connection.dbapi_connection
    try:
        session.executemany(statement, rows)
    except _errors(connection) as error:
        raise _failed(connection, error) from error


def first_row(connection: Connection, statement: str) -> tuple[Any, ...] | None:
    """The first row of a query that names no values. Raises ``DBAPIError``."""
    session: Any = connection.connection.dbapi_connection
    try:
        row: tuple[Any, ...] | None = session.execute(statement).fetchone()
    except _errors(connection) as error:
        raise _failed(connection, error) from error
    return row


def _named(
    connection: Connection, statements: Sequence[Statement]
) -> list[tuple[str, Mapping[str, Any]]] | None:
    """The statements, where all of them can be prepared."""
    if connection.dialect.name != "postgresql":
        return None
    named = [(text, values) for text, values in statements if isinstance(values, Mapping)]
    fit = len(named) == len(statements) and all(prepared.takes(values) for _, values in named)
    return named if fit else None


def _errors(connection: Connection) -> type[Exception]:
    """What the driver raises."""
    driver: Any = connection.dialect.dbapi
    found: type[Exception] = driver.Error
    return found


def _failed(connection: Connection, error: Any) -> BaseException:
    """The driver's error as SQLAlchemy's; a session that is gone is not used again."""
    raw: Any = connection.connection.dbapi_connection
    gone = connection.dialect.is_disconnect(error, raw, None)
    made: BaseException = DBAPIError.instance(
        None,
        None,
        error,
        _errors(connection),
        hide_parameters=True,
        connection_invalidated=gone,
        dialect=connection.dialect,
    )
    if gone:
        connection.invalidate(error)
    return made
