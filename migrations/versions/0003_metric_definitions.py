"""Metric definitions by version. A version never changes and never goes; it is only retired, once.

Events name the version that they were read under, so the database itself keeps each of them as it
was. Versions of one name count up from 1, and at most one of them is in force.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import Guard, create, drop, never_empties
from migrations.types import NAME

revision = "0003"
down_revision = "0002"

TABLE = "metric_definitions"
GUARDS = (
    Guard(
        "metric_definitions_only_retire",
        "UPDATE",
        TABLE,
        "a definition is only retired, once",
        when="""OLD.retired_us IS NOT NULL OR NEW.retired_us IS NULL
            OR NEW.retired_us < OLD.from_us
            OR NEW.name IS NOT OLD.name OR NEW.version IS NOT OLD.version
            OR NEW.body IS NOT OLD.body OR NEW.managed_by IS NOT OLD.managed_by
            OR NEW.owner IS NOT OLD.owner OR NEW.from_us IS NOT OLD.from_us""",
    ),
    Guard("metric_definitions_never_go", "DELETE", TABLE, "definitions never go"),
    Guard(
        "metric_definitions_in_order",
        "INSERT",
        TABLE,
        "a version follows the retired one before it",
        when="""NEW.retired_us IS NOT NULL
            OR NEW.version IS NOT 1 + coalesce(
                (SELECT max(version) FROM metric_definitions WHERE name = NEW.name), 0)
            OR EXISTS (SELECT 1 FROM metric_definitions
                WHERE name = NEW.name AND (retired_us IS NULL OR retired_us > NEW.from_us))""",
    ),
    never_empties(TABLE, "definitions never go"),
)


def upgrade() -> None:
    """No definitions yet: the next start declares the built-in ones and the file's."""
    op.create_table(
        TABLE,
        sa.Column("name", NAME, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("managed_by", sa.String(16), nullable=False),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("retired_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", "version", name="pk_metric_definitions"),
    )
    create(GUARDS)


def downgrade() -> None:
    """Drop every definition; what the audit says of them stays, and the verifier misses them."""
    drop(GUARDS)
    op.drop_table(TABLE)
