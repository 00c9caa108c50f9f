"""Triggers by which the database itself refuses what must never happen, on both databases.

A guard is one condition, written once in SQL that both understand; ``IS NOT`` between two values
becomes PostgreSQL's ``IS DISTINCT FROM``. On PostgreSQL a guard is a function and a trigger that
fires ``ALWAYS``, also in a session that plays a replica; its ``search_path`` is fixed, so that a
temporary table of the same name deceives it of nothing; and tables can't be truncated.

A revision keeps the guards it made as they were: to change one, write it anew in a new revision,
which drops the old and creates the new. A table that batch mode rebuilds (it copies, drops and
renames on SQLite) loses its triggers: drop them before and create them after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from alembic import op
from sqlalchemy import text

Event = Literal["INSERT", "UPDATE", "DELETE", "TRUNCATE"]
EACH_ROW: Final = 1
BEFORE: Final = 2
BITS: Final[dict[Event, int]] = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
"""Of PostgreSQL's ``pg_trigger.tgtype``, as are the two above."""
ANSWERS: Final[dict[Event, str]] = {
    "INSERT": "NEW",
    "UPDATE": "NEW",
    "DELETE": "OLD",
    "TRUNCATE": "NULL",
}
REFUSED: Final = "integrity_constraint_violation"


class Guard(NamedTuple):
    """``event`` on ``table`` is refused with ``words``, always or where ``when`` holds.

    ``added``: PostgreSQL checks inserts once a statement, over all its rows (as table ``added``),
    by this condition instead. ``after``: PostgreSQL checks the row as its statement ends.
    """

    name: str
    event: Event
    table: str
    words: str
    when: str | None = None
    added: str | None = None
    after: bool = False

    @property
    def sqlite(self) -> str | None:
        """The statement that creates it; None for what SQLite does not know."""
        if self.event == "TRUNCATE":
            return None
        when = "" if self.when is None else f" WHEN {self.when}"
        return (
            f"CREATE TRIGGER {self.name} BEFORE {self.event} ON {self.table}{when}"
            f" BEGIN SELECT RAISE(ABORT, '{self.words}'); END"
        )

    @property
    def body(self) -> str:
        """The source of PostgreSQL's function."""
        refuse = f"RAISE EXCEPTION '{self.words}' USING ERRCODE = '{REFUSED}';"
        condition = self.added or self.when
        if condition is not None:
            refuse = f"IF {_portable(condition)} THEN {refuse} END IF;"
        return f"BEGIN {refuse} RETURN {ANSWERS[self.event]}; END"

    @property
    def tgtype(self) -> int:
        """What PostgreSQL's catalogue says of the trigger's timing, level and event."""
        timing = 0 if self.added or self.after else BEFORE
        level = 0 if self.added or self.event == "TRUNCATE" else EACH_ROW
        return BITS[self.event] | timing | level

    def postgresql(self, schema: str) -> tuple[str, ...]:
        """The statements that create it."""
        timing = "BEFORE" if self.tgtype & BEFORE else "AFTER"
        level = "ROW" if self.tgtype & EACH_ROW else "STATEMENT"
        rows = " REFERENCING NEW TABLE AS added" if self.added else ""
        how = f"{timing} {self.event} ON {self.table}{rows} FOR EACH {level}"
        function = (
            f"CREATE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql"
            f" SET search_path = {schema}, pg_temp AS $guard${self.body}$guard$"
        )
        return (
            function,
            f"CREATE TRIGGER {self.name} {how} EXECUTE FUNCTION {self.name}()",
            f"ALTER TABLE {self.table} ENABLE ALWAYS TRIGGER {self.name}",
        )


def never_empties(table: str, words: str) -> Guard:
    """``TRUNCATE`` fires no delete triggers."""
    return Guard(f"{table}_never_empties", "TRUNCATE", table, words)


def create(guards: Iterable[Guard]) -> None:
    """Put them up, in the database that is being migrated."""
    for guard in guards:
        if _sqlite():
            if guard.sqlite is not None:
                op.execute(guard.sqlite)
            continue
        schema = op.get_bind().execute(text("SELECT current_schema()")).scalar_one()
        for statement in guard.postgresql(str(schema)):
            op.get_bind().exec_driver_sql(statement)


def drop(guards: Iterable[Guard]) -> None:
    """Take them down."""
    for guard in guards:
        if not _sqlite():
            op.execute(f"DROP TRIGGER {guard.name} ON {guard.table}")
            op.execute(f"DROP FUNCTION {guard.name}()")
        elif guard.sqlite is not None:
            op.execute(f"DROP TRIGGER {guard.name}")


def _sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _portable(condition: str) -> str:
    """``x IS NOT y`` is SQLite's way to compare with NULLs."""
    return re.sub(r"\bIS NOT(?=\s)(?!\s+NULL\b)", "IS DISTINCT FROM", condition)
