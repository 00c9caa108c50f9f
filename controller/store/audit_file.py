"""A store as an auditor reads it: the rows as they lie, trusting nothing about them.

SQLite lets a column hold anything, and whoever edits rows need not keep to types: values come as
they are, undecoded. A PostgreSQL store is read in one snapshot, beside whoever writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, text

from controller.store import guard_check
from controller.store.address import StoreAddress, address_of
from controller.store.connecting import reading_engine, translated
from controller.store.settings import StoreSettings
from signals.errors import NotFound, Rejected

BATCH_ROWS = 500
TABLES = frozenset({"audit_entries", "audit_head", "policies", "keys"})


class EntryRow(NamedTuple):
    """A row of ``audit_entries``."""

    leaf_index: object
    at_us: object
    actor: object
    action: object
    subject: object
    target: object
    stored: object
    leaf_hash: object


class PolicyRow(NamedTuple):
    """A row of ``policies``."""

    id: object
    target: object
    knob: object
    state: object
    rev: object
    updated_us: object
    body: object


class KeyRow(NamedTuple):
    """A row of ``keys``."""

    id: object
    token_sha256: object
    body: object


class DefinitionRow(NamedTuple):
    """A row of ``metric_definitions``."""

    name: object
    version: object
    body: object
    managed_by: object
    owner: object
    from_us: object
    retired_us: object


class HeadRow(NamedTuple):
    """The row of ``audit_head``."""

    size: object
    at_us: object


class AuditFile:
    """One snapshot of a store. Lists are streamed, in the order of their keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def entries(self, *, after: int | None = None) -> Iterator[EntryRow]:
        """By index; ``after``: only those above it."""
        table = "audit_entries"
        if after is not None:
            table += f" WHERE leaf_index > {after:d}"
        for row in self._rows(table, EntryRow._fields, order="leaf_index"):
            yield EntryRow(*row)

    def policies(self) -> Iterator[PolicyRow]:
        """By id."""
        for row in self._rows("policies", PolicyRow._fields, order="id"):
            yield PolicyRow(*row)

    def keys(self) -> Iterator[KeyRow]:
        """By id."""
        for row in self._rows("keys", KeyRow._fields, order="id"):
            yield KeyRow(*row)

    def definitions(self) -> Iterator[DefinitionRow]:
        """By name and version. A store of before revision 0003 has none."""
        if "metric_definitions" in self.tables():
            order = "name, version"
            for row in self._rows("metric_definitions", DefinitionRow._fields, order=order):
                yield DefinitionRow(*row)

    def table(
        self, name: str, columns: tuple[str, ...], *, order: str
    ) -> Iterator[tuple[object, ...]]:
        """The rows of any other table; none where the store is older than the table."""
        if name in self.tables():
            yield from self._rows(name, columns, order=order)

    def heads(self) -> list[HeadRow]:
        """There should be exactly one."""
        return [HeadRow(*row) for row in self._rows("audit_head", HeadRow._fields, order="size")]

    def triggers(self) -> frozenset[str]:
        """Names of the triggers that the store has, whatever they do."""
        return guard_check.names(self._connection)

    def weak_guards(self) -> Iterator[str]:
        """Findings: guards that are missing, switched off, or not as a revision made them."""
        return guard_check.weaknesses(self._connection, self.tables())

    def tables(self) -> frozenset[str]:
        """Names of the tables that the store has."""
        if self._connection.dialect.name == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        else:
            query = (
                "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
                " AND relnamespace = current_schema()::regnamespace"
            )
        return frozenset(self._connection.execute(text(query)).scalars())

    def _rows(
        self, table: str, columns: tuple[str, ...], *, order: str
    ) -> Iterator[tuple[object, ...]]:
        query = text(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
        streamed = self._connection.execution_options(yield_per=BATCH_ROWS)
        for row in streamed.execute(query):
            yield tuple(row)


@contextmanager
def open_audit(where: StoreAddress | Path) -> Iterator[AuditFile]:
    """One read-only snapshot, also beside a running writer or of a copy on read-only media.

    Raises ``NotFound`` without a file, ``Rejected`` where it is not a store, ``Broken`` when the
    file is damaged, ``Unavailable`` when the database does not answer.
    """
    address = address_of(where)
    if address.file is not None and not address.file.is_file():
        raise NotFound(f"no store at {address.file}", field="path", value=str(address.file))
    engine = reading_engine(address, StoreSettings(readers=1), offline=True)
    try:
        with translated(), engine.begin() as connection:
            opened = AuditFile(connection)
            missing = TABLES - opened.tables()
            if missing:
                raise Rejected(
                    f"{address.words()} is not a store: it has no {', '.join(sorted(missing))}",
                    field="path",
                )
            yield opened
    finally:
        engine.dispose()
