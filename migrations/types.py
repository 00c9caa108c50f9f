"""Column types of the revisions: the same in force on SQLite and PostgreSQL.

Ids and names are compared by their bytes on both, whatever the locale of a PostgreSQL database, so
pages and ranges of them come out alike.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

ID: Final = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
NAME: Final = sa.String(256).with_variant(sa.String(256, collation="C"), "postgresql")
COUNTER: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A 64-bit key: SQLite makes a column the row's own number only if it is called INTEGER."""
