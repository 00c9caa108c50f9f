"""Where a store lies: a SQLite file, or a schema of a PostgreSQL database.

>>> address_of("sqlite:////var/lib/trimtab/store.db").words()
'/var/lib/trimtab/store.db'
>>> address_of("postgresql://trimtab@db.example/control").words()
'postgresql://trimtab@db.example/control, schema trimtab'
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec import Struct
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from signals.errors import Rejected

SCHEMA: Final = "trimtab"
SCHEMA_PATTERN: Final = r"^[a-z_][a-z0-9_]{0,62}$"
ALLOWED: Final = "sqlite:///PATH or postgresql://[USER@]HOST[:PORT]/DATABASE"


class StoreAddress(Struct, frozen=True):
    """``url`` holds no password, so it may be shown and logged; ``address_of`` makes sure of it.

    A password comes from ``password_file``, read at every new connection, or from libpq's own
    ``PGPASSWORD`` and ``PGPASSFILE``. ``schema`` only matters to PostgreSQL.
    """

    url: str
    schema: str = SCHEMA
    password_file: Path | None = None

    @property
    def file(self) -> Path | None:
        """The SQLite file; None when the store is a PostgreSQL database."""
        parsed = make_url(self.url)
        return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None

    @property
    def parsed(self) -> URL:
        """The URL in SQLAlchemy's terms."""
        return make_url(self.url)

    def words(self) -> str:
        """For messages."""
        return str(self.file) if self.file is not None else f"{self.url}, schema {self.schema}"


def address_of(
    where: StoreAddress | Path | str, *, schema: str = SCHEMA, password_file: Path | None = None
) -> StoreAddress:
    """The address that a path or a URL means. Raises ``Rejected``, without showing a password."""
    if isinstance(where, StoreAddress):
        return where
    if isinstance(where, Path):
        return StoreAddress(f"sqlite:///{where}")
    try:
        parsed = make_url(where)
    except ArgumentError as error:
        raise Rejected("the store's URL is none", field="store.url", allowed=ALLOWED) from error
    shown = parsed.render_as_string(hide_password=True)
    if parsed.password is not None or "password" in parsed.query:
        raise Rejected(
            "a password in a URL ends up in logs and process lists",
            field="store.url",
            value=shown if parsed.password is not None else None,
            allowed="the URL without it, and store.password_file or PGPASSWORD",
        )
    _check(parsed, shown)
    if not re.match(SCHEMA_PATTERN, schema):
        raise Rejected(
            f"{schema!r} is no schema",
            field="store.schema_name",
            value=schema,
            allowed=SCHEMA_PATTERN,
        )
    return StoreAddress(where, schema, password_file)


def _check(parsed: URL, shown: str) -> None:
    backend, driver = parsed.get_backend_name(), parsed.drivername.partition("+")[2]
    if backend == "sqlite" and not driver and parsed.database not in (None, "", ":memory:"):
        return
    if backend == "postgresql" and driver in ("", "psycopg") and parsed.database:
        return
    raise Rejected(
        "the store is a SQLite file or a PostgreSQL database",
        field="store.url",
        value=shown,
        allowed=ALLOWED,
    )
