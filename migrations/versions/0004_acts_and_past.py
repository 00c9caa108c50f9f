"""Overrides, changes, baselines, segments, deliveries; an audit appended in batches, and sealed.

Entries of one transaction are appended together and the head moves once, so an entry takes the
index after the last one, and the head moves to just beyond it. The bytes of an entry may leave for
an archive that covers it; its leaf hash and its columns stay for ever.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.String(64)
NAME = sa.String(256)
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


TRIGGERS = {
    "audit_entries_never_change": """
        BEFORE UPDATE ON audit_entries
        WHEN NEW.stored IS NOT NULL
            OR NEW.leaf_index IS NOT OLD.leaf_index OR NEW.at_us IS NOT OLD.at_us
            OR NEW.actor IS NOT OLD.actor OR NEW.action IS NOT OLD.action
            OR NEW.subject IS NOT OLD.subject OR NEW.target IS NOT OLD.target
            OR NEW.leaf_hash IS NOT OLD.leaf_hash
            OR NOT EXISTS (SELECT 1 FROM audit_archives
                WHERE OLD.leaf_index BETWEEN first_index AND last_index)
        BEGIN SELECT RAISE(ABORT, 'audit entries never change'); END""",
    "audit_entries_never_go": """
        BEFORE DELETE ON audit_entries
        BEGIN SELECT RAISE(ABORT, 'audit entries never go'); END""",
    "audit_entries_in_order": """
        BEFORE INSERT ON audit_entries
        WHEN NEW.stored IS NULL OR NEW.leaf_index IS NOT max(
            (SELECT size FROM audit_head),
            1 + coalesce((SELECT max(leaf_index) FROM audit_entries), -1))
        BEGIN SELECT RAISE(ABORT, 'an audit entry takes the index after the last'); END""",
    "audit_head_counts_up": """
        BEFORE UPDATE ON audit_head
        WHEN NEW.size <= OLD.size OR NEW.at_us < OLD.at_us OR NEW.id <> OLD.id
            OR NEW.size <> 1 + (SELECT max(leaf_index) FROM audit_entries)
        BEGIN SELECT RAISE(ABORT, 'the audit head counts up'); END""",
    "audit_archives_never_change": """
        BEFORE UPDATE ON audit_archives
        BEGIN SELECT RAISE(ABORT, 'audit archives never change'); END""",
    "audit_archives_never_go": """
        BEFORE DELETE ON audit_archives
        BEGIN SELECT RAISE(ABORT, 'audit archives never go'); END""",
    "audit_archives_in_order": """
        BEFORE INSERT ON audit_archives
        WHEN NEW.last_index < NEW.first_index
            OR NEW.last_index >= (SELECT size FROM audit_head)
            OR NEW.first_index IS NOT (SELECT coalesce(max(last_index), -1) + 1 FROM audit_archives)
        BEGIN SELECT RAISE(ABORT, 'an archive follows the one before it'); END""",
}

BEFORE = {
    "audit_entries_never_change": """
        BEFORE UPDATE ON audit_entries
        BEGIN SELECT RAISE(ABORT, 'audit entries never change'); END""",
    "audit_entries_never_go": TRIGGERS["audit_entries_never_go"],
    "audit_entries_in_order": """
        BEFORE INSERT ON audit_entries
        WHEN NEW.leaf_index IS NOT (SELECT size FROM audit_head)
        BEGIN SELECT RAISE(ABORT, 'an audit entry takes the index of the head'); END""",
    "audit_head_counts_up": """
        BEFORE UPDATE ON audit_head
        WHEN NEW.size <> OLD.size + 1 OR NEW.at_us < OLD.at_us OR NEW.id <> OLD.id
        BEGIN SELECT RAISE(ABORT, 'the audit head counts up'); END""",
}

INDEXES = {
    "ix_audit_entries_actor_leaf_index": ("audit_entries", ["actor", "leaf_index"]),
    "ix_audit_entries_action_leaf_index": ("audit_entries", ["action", "leaf_index"]),
    "ix_audit_entries_at_us_leaf_index": ("audit_entries", ["at_us", "leaf_index"]),
    "ix_policies_target_id": ("policies", ["target", "id"]),
    "ix_policies_origin_id": ("policies", ["origin", "id"]),
    "ix_policies_proposed_by_id": ("policies", ["proposed_by", "id"]),
    "ix_policies_verdict_id": ("policies", ["verdict", "id"]),
}
POLICY_COLUMNS = ("scope", "origin", "proposed_by", "verdict")
TABLES = (
    "audit_archives",
    "audit_tree_heads",
    "overrides",
    "declared_changes",
    "baselines",
    "segments",
    "deliveries",
    "idempotent_answers",
)


def upgrade() -> None:
    """Expand: new tables, new indexes, bytes that may leave for an archive."""
    _audit()
    _acts()
    _past()
    _outside()
    _policies()
    _set_stored(nullable=True, drop=BEFORE, create=TRIGGERS)
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Contract: what the new tables hold is lost; refused while entries lie in an archive."""
    archived = "SELECT count(*) FROM audit_entries WHERE stored IS NULL"
    if op.get_bind().execute(sa.text(archived)).scalar_one():
        raise RuntimeError("audit entries lie in archives; put their bytes back first")
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
    with op.batch_alter_table("policies") as batch:
        for name in POLICY_COLUMNS:
            batch.drop_column(name)
    _set_stored(nullable=False, drop=TRIGGERS, create=BEFORE)
    for table in reversed(TABLES):
        op.drop_table(table)


def _set_stored(*, nullable: bool, drop: dict[str, str], create: dict[str, str]) -> None:
    """Batch mode copies, drops and renames the table, so its triggers are made anew."""
    for name in drop:
        op.execute(f"DROP TRIGGER {name}")
    with op.batch_alter_table("audit_entries") as batch:
        batch.alter_column("stored", existing_type=sa.LargeBinary(), nullable=nullable)
    for name, body in create.items():
        op.execute(f"CREATE TRIGGER {name} {body}")


def _audit() -> None:
    op.create_table(
        "audit_archives",
        sa.Column("first_index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_index", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("first_index", name="pk_audit_archives"),
    )
    op.create_table(
        "audit_tree_heads",
        sa.Column("seq", COUNTER, autoincrement=True, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_tree_heads"),
    )


def _policies() -> None:
    """What policies are found by; the rows that are there get it from their bodies."""
    kind = sa.String(16)
    for column in (
        sa.Column("scope", NAME, nullable=False, server_default="target"),
        sa.Column("origin", kind, nullable=False, server_default="unknown"),
        sa.Column("proposed_by", NAME, nullable=False, server_default="unknown"),
        sa.Column("verdict", kind, nullable=True),
    ):
        op.add_column("policies", column)
    rows = op.get_bind().execute(sa.text("SELECT id, body FROM policies")).all()
    fill = sa.text(
        "UPDATE policies SET origin = :origin, proposed_by = :by, verdict = :verdict WHERE id = :id"
    )
    for policy_id, stored in rows:
        body = json.loads(stored)
        found = {"origin": body["origin"]["kind"], "by": body["proposed_by"]}
        found |= {"verdict": body.get("verdict"), "id": policy_id}
        op.get_bind().execute(fill, found)


def _acts() -> None:
    op.create_table(
        "overrides",
        sa.Column("id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("rev", sa.Integer(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_overrides"),
    )
    op.create_index("ix_overrides_target_state_id", "overrides", ["target", "state", "id"])
    op.create_table(
        "declared_changes",
        sa.Column("id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_declared_changes"),
    )
    op.create_index("ix_declared_changes_target_from_us", "declared_changes", ["target", "from_us"])
    op.create_table(
        "baselines",
        sa.Column("target", NAME, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("target", "version", name="pk_baselines"),
    )


def _past() -> None:
    op.create_table(
        "segments",
        sa.Column("seq", COUNTER, autoincrement=True, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("replica", NAME, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=True),
        sa.Column("incarnation", NAME, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("entry", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_segments"),
    )
    op.create_index(
        "ix_segments_target_replica_from_us", "segments", ["target", "replica", "from_us"]
    )
    op.create_index("ix_segments_incarnation_version", "segments", ["incarnation", "version"])


def _outside() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("hook", NAME, nullable=False),
        sa.Column("entry", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_state_due_us", "deliveries", ["state", "due_us"])
    op.create_table(
        "idempotent_answers",
        sa.Column("principal", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("request_sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("principal", "key", name="pk_idempotent_answers"),
    )
    op.create_index("ix_idempotent_answers_at_us", "idempotent_answers", ["at_us"])
