"""The states of learners that decisions name, so that a draw can be made again from what was known.

One row a state, whichever decisions were drawn from it; it goes with the last of them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.types import NAME

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Build it."""
    op.create_table(
        "learners",
        sa.Column("target", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("target", "digest", name="pk_learners"),
    )
    op.create_index("ix_learners_at_us", "learners", ["at_us"])


def downgrade() -> None:
    """Take it away: decisions stay, and can't be drawn again."""
    op.drop_table("learners")
