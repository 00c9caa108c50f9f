"""How a store is opened, whichever database it lies in, and what its errors mean to callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    DBAPIError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from controller.store import postgres, sqlite
from controller.store.address import StoreAddress
from controller.store.settings import StoreSettings
from signals.errors import Broken, Rejected, Unavailable

NOT_YET: Final = frozenset({"42P01", "3F000", "42703"})
"""PostgreSQL's codes for a table, schema or column that is not there: nobody set the store up."""


def writing_engine(address: StoreAddress, settings: StoreSettings) -> Engine:
    """One connection, for the process that writes."""
    if address.file is not None:
        return sqlite.writing_engine(address.file, settings)
    return postgres.writing_engine(address, settings)


def reading_engine(
    address: StoreAddress, settings: StoreSettings, *, offline: bool = False
) -> Engine:
    """Read-only connections; each transaction is one snapshot.

    ``offline``: for one who reads all of it, perhaps a copy on media that nobody can write.
    """
    if address.file is not None:
        return sqlite.reading_engine(address.file, settings, offline=offline)
    return postgres.reading_engine(address, settings, offline=offline)


NOT_ALLOWED: Final = "42501"
"""PostgreSQL's code for a role that lacks a right."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn the database's errors into ours: ``Unavailable`` if retrying may help, else ``Broken``.

    ``Unavailable``: locked, missing, disk full, no connection, a wait that came to its bound, a
    deadlock that the database resolved. ``Rejected``: the role lacks a right, or a caller's text
    has a NUL character in it, which PostgreSQL can't even look for. ``Broken``: a constraint that
    our own checks should have kept, or a damaged file.
    """
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable(f"the store has no free connection: {error}") from error
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(f"the store did not answer: {_first_line(error)}") from error
    except DatabaseError as error:
        if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in NOT_YET:
            raise Unavailable(f"the store did not answer: {_first_line(error)}") from error
        if getattr(error.orig, "sqlstate", None) == NOT_ALLOWED:
            raise Rejected(
                f"the store's role may not do that: {_first_line(error)}",
                field="store.url",
                allowed="what `trimtab store grants` lists; `trimtab store upgrade` as the owner",
            ) from error
        if isinstance(error, DataError) and "NUL" in _first_line(error):
            raise Rejected(
                "there is a NUL character in a text", allowed="texts without U+0000"
            ) from error
        raise Broken(f"the store refused: {_first_line(error)}") from error


def _first_line(error: DBAPIError) -> str:
    """Without the statement's text, which PostgreSQL adds in the lines that follow."""
    return str(error.orig).partition("\n")[0]
