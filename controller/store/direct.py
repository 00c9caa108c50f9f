"""Statements that every transition sends, through the database's own driver.

What a toolkit does around each statement (its compiled form, its result, its events) takes longer
on SQLite than the statement itself. A transition sends the same few statements again and again and
asks only how many rows they changed, so these go to the driver in the transaction that the toolkit
began and ends. An error is the same to callers, either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def sent(connection: Connection, statement: str, values: Mapping[str, Any] | Sequence[Any]) -> int:
    """How many rows it changed. Raises ``DBAPIError``, as SQLAlchemy does for its own."""
    session: Any = connection.connection.dbapi_connection
    try:
        changed: int = session.execute(statement, values).rowcount
    except _errors(connection) as error:
        raise _failed(connection, error) from error
    return changed


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
