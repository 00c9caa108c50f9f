"""Bring a store to the newest schema when its one writer starts.

Whoever comes second waits: on SQLite for the file's write lock, on PostgreSQL for an advisory lock
of the transaction. What a revision does is done whole or not at all, on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

import migrations
from controller.store.address import StoreAddress, address_of
from controller.store.connecting import reading_engine, translated, writing_engine
from controller.store.postgres import MIGRATING, lock_key
from controller.store.settings import StoreSettings
from signals.errors import Rejected

NEWEST = "head"


def upgrade(
    where: StoreAddress | Path | str, settings: StoreSettings | None = None, *, to: str = NEWEST
) -> None:
    """Run what is missing, all of it in one transaction. Raises ``Rejected`` for a newer store."""
    with _alembic(address_of(where), settings) as config:
        command.upgrade(config, to)


def downgrade(
    where: StoreAddress | Path | str, to: str, settings: StoreSettings | None = None
) -> None:
    """Undo down to revision ``to``, in one transaction; ``base`` leaves no table and no audit."""
    with _alembic(address_of(where), settings) as config:
        command.downgrade(config, to)


@contextmanager
def _alembic(address: StoreAddress, settings: StoreSettings | None) -> Iterator[Config]:
    engine = writing_engine(address, settings or StoreSettings())
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    try:
        with translated(), engine.begin() as connection:
            if address.file is None:
                _alone_in_schema(connection, address.schema)
            _check_known(config, connection)
            config.attributes["connection"] = connection
            yield config
    finally:
        engine.dispose()


def _alone_in_schema(connection: Connection, schema: str) -> None:
    """The schema, made if it is missing, and nobody else who migrates it until the end."""
    lock = text("SELECT pg_advisory_xact_lock(:kind, :key)")
    connection.execute(lock, {"kind": MIGRATING, "key": lock_key(schema)})
    there = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
    if connection.execute(there, {"schema": schema}).one_or_none() is None:
        connection.execute(text(f"CREATE SCHEMA {schema}"))


def _check_known(config: Config, connection: Connection) -> None:
    """An older program must not touch a newer store."""
    now = MigrationContext.configure(connection).get_current_revision()
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if now is not None and now not in known:
        raise Rejected(
            f"the store has schema {now}, which this version does not know",
            field="store.url",
            value=now,
            allowed=", ".join(reversed(known)),
        )


def revision_of(where: StoreAddress | Path | str, settings: StoreSettings | None = None) -> str:
    """The schema's revision; empty where there is none yet. Raises ``Unavailable``."""
    engine = reading_engine(address_of(where), settings or StoreSettings(), offline=True)
    try:
        with translated(), engine.begin() as connection:
            return MigrationContext.configure(connection).get_current_revision() or ""
    finally:
        engine.dispose()


def newest() -> str:
    """The revision that this version brings a store to."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return str(ScriptDirectory.from_config(config).get_current_head())
