"""Raw access to a store of either database, as an insider with its password would have it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg

from controller.store.address import StoreAddress

REFUSALS = (sqlite3.IntegrityError, psycopg.errors.IntegrityError)
"""What a guard answers with, and nothing else does here."""


class Raw:
    """One connection that commits each statement."""

    def __init__(self, connection: sqlite3.Connection | psycopg.Connection) -> None:
        self._connection = connection

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Its rows, if it has some."""
        done = self._connection.execute(statement)
        return list(done.fetchall()) if done.description else []


@contextmanager
def raw_access(address: StoreAddress) -> Iterator[Raw]:
    """As a superuser, on PostgreSQL."""
    if address.file is not None:
        with closing(sqlite3.connect(address.file, isolation_level=None)) as connection:
            yield Raw(connection)
        return
    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.url, autocommit=True, options=options) as session:
        yield Raw(session)
