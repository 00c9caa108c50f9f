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
from urllib.parse import SplitResult, parse_qs, urlsplit

from msgspec import Struct

from signals.errors import Rejected

SCHEMA: Final = "trimtab"
SCHEMA_PATTERN: Final = r"^[a-z_][a-z0-9_]{0,62}$"
ALLOWED: Final = "sqlite:///PATH or postgresql://[USER@]HOST[:PORT]/DATABASE"
FILE: Final = "sqlite:///"
SCHEMES: Final = ("postgresql", "postgresql+psycopg")


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
        return Path(self.url.removeprefix(FILE)) if self.url.startswith(FILE) else None

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
        return StoreAddress(f"{FILE}{where}")
    try:
        parts = urlsplit(where)
        password = parts.password or parse_qs(parts.query).get("password")
        sound = _sound(where, parts)
    except ValueError as error:
        raise Rejected("the store's URL is none", field="store.url", allowed=ALLOWED) from error
    if password:
        raise Rejected(
            "a password in a URL ends up in logs and process lists",
            field="store.url",
            allowed="the URL without it, and store.password_file or PGPASSWORD",
        )
    if not sound:
        raise Rejected(
            "the store is a SQLite file or a PostgreSQL database",
            field="store.url",
            value=where,
            allowed=ALLOWED,
        )
    if not re.match(SCHEMA_PATTERN, schema):
        raise Rejected(
            f"{schema!r} is no schema's name",
            field="store.schema_name",
            value=schema,
            allowed=SCHEMA_PATTERN,
        )
    return StoreAddress(where, schema, password_file)


def _sound(url: str, parts: SplitResult) -> bool:
    """Whether it names a file, or a database; the port is looked at too."""
    if parts.scheme == "sqlite":
        return url.startswith(FILE) and url.removeprefix(FILE) not in ("", ":memory:")
    there = parts.port is None or parts.port > 0
    return parts.scheme in SCHEMES and there and len(parts.path) > 1
