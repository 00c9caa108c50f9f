"""The records: policies, trials, decisions, what people said, keys, the audit and its head."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.types import COUNTER, ID, NAME

revision = "0001"
down_revision = None

TABLES = (
    "policies",
    "trials",
    "decisions",
    "controls",
    "modes",
    "foreign_changes",
    "notes",
    "keys",
    "audit_entries",
    "audit_head",
)


def upgrade() -> None:
    """Build every table; the audit begins empty."""
    _policies_and_trials()
    _controls()
    _keys()
    _audit()


def downgrade() -> None:
    """Drop every table, with all that is in them."""
    for table in reversed(TABLES):
        op.drop_table(table)


def _policies_and_trials() -> None:
    op.create_table(
        "policies",
        sa.Column("id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("knob", NAME, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("rev", sa.Integer(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
    )
    op.create_index("ix_policies_target_state_id", "policies", ["target", "state", "id"])
    op.create_table(
        "trials",
        sa.Column("id", ID, nullable=False),
        sa.Column("policy_id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("rev", sa.Integer(), nullable=False),
        sa.Column("began_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        _policy_key("trials"),
    )
    op.create_index("ix_trials_target_state_began_us", "trials", ["target", "state", "began_us"])
    op.create_table(
        "decisions",
        sa.Column("seq", COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("policy_id", ID, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_decisions"),
        sa.UniqueConstraint("id", name="uq_decisions_id"),
        _policy_key("decisions"),
    )
    op.create_index("ix_decisions_target_seq", "decisions", ["target", "seq"])


def _policy_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["policy_id"],
        ["policies.id"],
        name=f"fk_{table}_policy_id",
        deferrable=True,
        initially="DEFERRED",
    )


def _controls() -> None:
    op.create_table(
        "controls",
        sa.Column("target", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("target", name="pk_controls"),
    )
    op.create_table(
        "modes",
        sa.Column("target", NAME, nullable=False),
        sa.Column("knob", NAME, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("target", "knob", name="pk_modes"),
    )
    op.create_table(
        "foreign_changes",
        sa.Column("target", NAME, nullable=False),
        sa.Column("knob", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("target", "knob", name="pk_foreign_changes"),
    )
    op.create_table(
        "notes",
        sa.Column("key", NAME, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_notes"),
    )


def _keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("token_sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("token_sha256", name="uq_keys_token_sha256"),
    )


def _audit() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("leaf_index", COUNTER, autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("action", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("stored", sa.LargeBinary(), nullable=False),
        sa.Column("leaf_hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("leaf_index", name="pk_audit_entries"),
    )
    for column in ("subject", "target"):
        op.create_index(
            f"ix_audit_entries_{column}_leaf_index", "audit_entries", [column, "leaf_index"]
        )
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_head"),
        sa.CheckConstraint("id = 1", name="ck_audit_head_single"),
    )
    op.bulk_insert(head, [{"id": 1, "size": 0, "at_us": 0}])
