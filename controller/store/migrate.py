"""Bring a store to the newest schema when its one writer starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

import migrations
from controller.store.connecting import file_of, translated, writing_engine
from controller.store.settings import StoreSettings
from signals.errors import Rejected

NEWEST = "head"


def upgrade(url: str, settings: StoreSettings | None = None, *, to: str = NEWEST) -> None:
    """Run what is missing, all of it in one transaction. Raises ``Rejected`` for a newer store."""
    with _alembic(url, settings) as config:
        command.upgrade(config, to)


def downgrade(url: str, to: str, settings: StoreSettings | None = None) -> None:
    """Undo down to revision ``to``, in one transaction; ``base`` leaves no table and no audit."""
    with _alembic(url, settings) as config:
        command.downgrade(config, to)


@contextmanager
def _alembic(url: str, settings: StoreSettings | None) -> Iterator[Config]:
    engine = writing_engine(file_of(url), settings or StoreSettings())
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    try:
        with translated(), engine.begin() as connection:
            _check_known(config, connection)
            config.attributes["connection"] = connection
            yield config
    finally:
        engine.dispose()


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
