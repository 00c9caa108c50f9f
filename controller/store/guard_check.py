"""Whether a store's guards stand as the revisions put them up: there, switched on, unaltered."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from sqlalchemy import Connection, text

import migrations.versions
from migrations.guards import Guard

Standing = dict[str, str]
"""By name: what the database has of a guard, in a form that two of them are compared by."""

IN_SQLITE = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
IN_POSTGRESQL = """
    SELECT t.tgname AS name, t.tgenabled::text AS enabled, t.tgtype AS type,
        t.tgqual IS NOT NULL AS conditional, t.tgattr::text AS columns, c.relname AS "table",
        p.prosrc AS body, p.proconfig AS config, p.pronamespace = c.relnamespace AS ours
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace"""


@cache
def revisions() -> tuple[tuple[Guard, ...], ...]:
    """The guards of each revision that made some, oldest first."""
    found = []
    for module in sorted(pkgutil.iter_modules(migrations.versions.__path__), key=lambda m: m.name):
        made = importlib.import_module(f"migrations.versions.{module.name}")
        found.append(tuple(getattr(made, "GUARDS", ())))
    return tuple(found)


def names(connection: Connection) -> frozenset[str]:
    """Of the triggers that the database has."""
    return frozenset(_standing(connection))


def weaknesses(connection: Connection, tables: frozenset[str]) -> Iterator[str]:
    """What is wrong with the guards of these tables; nothing when all stand.

    An older store has the guards of its own revision, which are as good.
    """
    known = {guard.name: guard for made in revisions() for guard in made}
    standing = _standing(connection)
    sqlite = connection.dialect.name == "sqlite"
    for name, guard in sorted(known.items()):
        if guard.table not in tables or (sqlite and guard.sqlite is None):
            continue
        if name not in standing:
            yield f"database: the trigger {name} is missing"
        elif standing[name] not in _accepted(connection, name):
            yield f"database: the trigger {name} is not as it was made"


def _accepted(connection: Connection, name: str) -> set[str]:
    """What a guard may look like: as any revision made it."""
    versions = [guard for made in revisions() for guard in made if guard.name == name]
    if connection.dialect.name == "sqlite":
        return {_squeezed(guard.sqlite or "") for guard in versions}
    schema = str(connection.execute(text("SELECT current_schema()")).scalar_one())
    config = f"['search_path={schema}, pg_temp']"
    return {
        f"A {guard.tgtype} {guard.table} True {config} {_squeezed(guard.body)}"
        for guard in versions
    }


def _standing(connection: Connection) -> Standing:
    if connection.dialect.name == "sqlite":
        return {
            str(row.name): _squeezed(str(row.sql)) for row in connection.execute(text(IN_SQLITE))
        }
    return {
        str(row.name): f"{row.enabled} {row.type} {row.table}"
        f" {row.ours and not row.conditional and not row.columns}"
        f" {row.config} {_squeezed(row.body)}"
        for row in connection.execute(text(IN_POSTGRESQL))
    }


def _squeezed(sql: str) -> str:
    """Without what only lays it out."""
    return " ".join(sql.split())
