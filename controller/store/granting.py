"""What the roles of a PostgreSQL may do with a store: enough to write it, never to unguard it.

Whoever owns a table can drop its triggers. So the tables belong to one role, which sets up and
migrates (``trimtab store upgrade``), and ``serve`` logs in as another, which can do no more than
what ``serve`` does; ingest and the feature stage only read, as a third.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from controller.store.tables import metadata
from signals.errors import Rejected

ROLE: Final = r"^[a-z_][a-z0-9_]{0,62}$"
WRITES: Final = {
    "audit_entries": "SELECT, INSERT, UPDATE (stored)",
    "audit_head": "SELECT, UPDATE (size, at_us)",
    "audit_archives": "SELECT, INSERT",
    "metric_definitions": "SELECT, INSERT, UPDATE (retired_us)",
    "alembic_version": "SELECT",
}
"""Where a table is not simply read and written."""


def grants(schema: str, writer: str, reader: str | None = None) -> Iterator[str]:
    """SQL for the owner of the schema to run, after every upgrade. Raises ``Rejected``."""
    for role in (writer, *(() if reader is None else (reader,))):
        if not re.match(ROLE, role):
            raise Rejected(f"{role!r} is no role's name", field="role", value=role, allowed=ROLE)
        yield f"GRANT USAGE ON SCHEMA {schema} TO {role};"
    for table in (*sorted(metadata.tables), "alembic_version"):
        rights = WRITES.get(table, "SELECT, INSERT, UPDATE, DELETE")
        yield f"REVOKE ALL ON {schema}.{table} FROM {writer};"
        yield f"GRANT {rights} ON {schema}.{table} TO {writer};"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {writer};"
    if reader is not None:
        yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader};"
