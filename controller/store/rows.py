"""What the nouns of the store share: one connection, whether it may write, records as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, String, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from controller.store.direct import Statement, sent_together
from signals.errors import Broken, Rejected

Record = TypeVar("Record", bound=msgspec.Struct)

MAX_ROWS = 10_000
"""The longest list that one call answers; longer ones are read in pages."""
MAX_SOON: Final = 50
"""Changes that are kept back: enough for a step of the loop, a few hundred kilobytes at most."""


class Soon(NamedTuple):
    """A statement that was kept back, and who is told how many rows it changed.

    ``sure``: its text where it must change a row, or fail; None where it may change none.
    """

    statement: Statement
    then: Callable[[int], None]
    sure: str | None = None


class Rows:
    """One transaction's hands. Every noun's class below builds on it.

    On PostgreSQL a change that nobody reads yet is kept back and sent with the next ones: they are
    all one wait. Whatever else uses the connection sends them before it, so the order stands.
    """

    def __init__(self, connection: Connection, *, writing: bool) -> None:
        self._behind = connection
        self._writing = writing
        self._soon: list[Soon] = []

    @property
    def _connection(self) -> Connection:
        """The connection, with all that this transaction changed sent before what is sent now."""
        self._send()
        return self._behind

    def _change(self, change: Soon) -> None:
        """Send it now or later in this transaction.

        What its ``then`` raises, the method raises that sends it: this one, or one that follows.
        """
        self._soon.append(change)
        if self._dialect == "sqlite" or len(self._soon) == MAX_SOON:
            self._send()

    def _send(self) -> None:
        """Send what was kept back, and tell each its rows, in the order of the changes."""
        soon, self._soon = self._soon, []
        if not soon:
            return
        counts = sent_together(self._behind, [one.statement for one in soon])
        for one, count in zip(soon, counts, strict=True):
            one.then(count)

    def _for_writing(self) -> Connection:
        """The connection, or ``Broken`` in a transaction that was opened to read."""
        self._check_writing()
        return self._connection

    def _check_writing(self) -> None:
        if not self._writing:
            raise Broken("this transaction only reads; open it with write()")

    @property
    def _dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._behind.dialect.name

    def _replace(self, table: Table, values: dict[str, Any]) -> None:
        """Insert the row, or set what differs of the one with the same primary key."""
        same = [column.name for column in table.primary_key.columns]
        change = self._insert(table)
        new = {name: change.excluded[name] for name in values if name not in same}
        change = change.on_conflict_do_update(index_elements=same, set_=new)
        self._for_writing().execute(change, values)

    def _added(self, table: Table, values: dict[str, Any]) -> bool:
        """Insert the row; False where it clashes with one that is there, and nothing is changed.

        Unlike an error, a clash leaves a PostgreSQL transaction as good as it was.
        """
        change = self._insert(table).on_conflict_do_nothing()
        counted = change.execution_options(preserve_rowcount=True)
        return self._for_writing().execute(counted, values).rowcount == 1

    def _insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        if self._dialect == "sqlite":
            return sqlite.insert(table)
        return postgresql.insert(table)


def bounded(limit: int) -> int:
    """``limit``, if it is one. Raises ``Rejected`` naming the range."""
    if not 1 <= limit <= MAX_ROWS:
        raise Rejected(
            f"limit = {limit} is out of range",
            field="limit",
            value=limit,
            allowed=f"1..{MAX_ROWS} rows",
        )
    return limit


class Sifted(FunctionElement[str]):
    """A column that what is found by another filter is compared with.

    SQLite, which knows nothing of how often a value is met, must not lead with its index, so it
    sees an expression. PostgreSQL knows: it sees the column itself, and plans by its statistics.
    """

    name = "sifted"
    inherit_cache = True
    type = String()


@compiles(Sifted)
def _unindexed(element: Sifted, compiler: SQLCompiler, **how: Any) -> str:
    return f"coalesce({compiler.process(element.clauses, **how)}, '')"


@compiles(Sifted, "postgresql")
def _bare(element: Sifted, compiler: SQLCompiler, **how: Any) -> str:
    return compiler.process(element.clauses, **how)


def sifted(column: ColumnElement[Any]) -> ColumnElement[str]:
    """``Sifted``, of a column of text."""
    return Sifted(column)


def content(body: str) -> str:
    """SHA-256, in hex, of a record exactly as it is stored; the audit holds it for every change."""
    return hashlib.sha256(body.encode()).hexdigest()


def written(record: msgspec.Struct) -> str:
    """The JSON of a record that is known to read back: one that came from the store."""
    return msgspec.json.encode(record).decode()


def encoded(record: msgspec.Struct) -> str:
    """The record's JSON, proved to read back as the same record.

    JSON has no infinity and no NaN, and types are not checked when a record is built: a record that
    would come back changed, or not at all, raises ``Broken`` here rather than in a later reader.
    """
    body = msgspec.json.encode(record)
    try:
        same = msgspec.json.decode(body, type=type(record)) == record
    except msgspec.ValidationError as error:
        raise Broken(f"a {type(record).__name__} can't be stored: {error}") from error
    if not same:
        raise Broken(f"a {type(record).__name__} would not read back as it was stored: {record!r}")
    return body.decode()


def decoded(body: str, kind: type[Record]) -> Record:
    """The record of a body that ``encoded`` made."""
    return msgspec.json.decode(body, type=kind)
