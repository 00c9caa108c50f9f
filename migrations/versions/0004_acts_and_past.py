"""Overrides, changes, baselines, segments, deliveries; an audit appended in batches, and sealed.

Entries of one transaction are appended together and the head moves once, so an entry takes the
index after the last one, and the head moves to just beyond it. The bytes of an entry may leave for
an archive that covers it; its leaf hash and its columns stay for ever.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from migrations.guards import Guard, create, drop, never_empties
from migrations.types import COUNTER, ID, NAME
from signals.errors import Conflict

revision = "0004"
down_revision = "0003"

BEFORE = (
    Guard("audit_entries_never_change", "UPDATE", "audit_entries", "audit entries never change"),
    Guard(
        "audit_entries_in_order",
        "INSERT",
        "audit_entries",
        "an audit entry takes the index of the head",
        when="NEW.leaf_index IS NOT (SELECT size FROM audit_head)",
    ),
    Guard(
        "audit_head_counts_up",
        "UPDATE",
        "audit_head",
        "the audit head counts up",
        when="NEW.size <> OLD.size + 1 OR NEW.at_us < OLD.at_us OR NEW.id <> OLD.id",
    ),
)
"""Revision 0002's, which the first three below replace."""
REPLACING = (
    Guard(
        "audit_entries_never_change",
        "UPDATE",
        "audit_entries",
        "audit entries never change",
        when="""NEW.stored IS NOT NULL
            OR NEW.leaf_index IS NOT OLD.leaf_index OR NEW.at_us IS NOT OLD.at_us
            OR NEW.actor IS NOT OLD.actor OR NEW.action IS NOT OLD.action
            OR NEW.subject IS NOT OLD.subject OR NEW.target IS NOT OLD.target
            OR NEW.leaf_hash IS NOT OLD.leaf_hash
            OR NOT EXISTS (SELECT 1 FROM audit_archives
                WHERE OLD.leaf_index BETWEEN first_index AND last_index)""",
    ),
    Guard(
        "audit_entries_in_order",
        "INSERT",
        "audit_entries",
        "an audit entry takes the index after the last",
        when="""NEW.stored IS NULL OR NEW.leaf_index IS NOT max(
            (SELECT size FROM audit_head),
            1 + coalesce((SELECT max(leaf_index) FROM audit_entries), -1))""",
        added="""(SELECT bool_or(stored IS NULL)
            OR max(leaf_index) - min(leaf_index) <> count(*) - 1
            OR max(leaf_index) <> (SELECT max(leaf_index) FROM audit_entries)
            OR min(leaf_index) <> 1 + coalesce((SELECT max(leaf_index) FROM audit_entries
                WHERE leaf_index < (SELECT min(leaf_index) FROM added)), -1) FROM added)""",
    ),
    Guard(
        "audit_head_counts_up",
        "UPDATE",
        "audit_head",
        "the audit head counts up",
        when="""NEW.size <= OLD.size OR NEW.at_us < OLD.at_us OR NEW.id <> OLD.id
            OR NEW.size IS NOT 1 + (SELECT max(leaf_index) FROM audit_entries)""",
        after=True,
    ),
)
NEW = (
    Guard("audit_archives_never_change", "UPDATE", "audit_archives", "audit archives never change"),
    Guard("audit_archives_never_go", "DELETE", "audit_archives", "audit archives never go"),
    Guard(
        "audit_archives_in_order",
        "INSERT",
        "audit_archives",
        "an archive follows the one before it",
        when="""NEW.last_index < NEW.first_index
            OR NEW.last_index >= (SELECT size FROM audit_head)
            OR NEW.first_index IS NOT
                (SELECT coalesce(max(last_index), -1) + 1 FROM audit_archives)""",
    ),
    never_empties("audit_archives", "audit archives never go"),
)
REBUILT = (Guard("audit_entries_never_go", "DELETE", "audit_entries", "audit entries never go"),)
"""Revision 0002's too: unchanged, but gone with the table that batch mode rebuilds."""
GUARDS = (*REPLACING, *NEW)

INDEXES = {
    "ix_audit_entries_actor_leaf_index": ("audit_entries", ["actor", "leaf_index"]),
    "ix_audit_entries_action_leaf_index": ("audit_entries", ["action", "leaf_index"]),
    "ix_audit_entries_at_us_leaf_index": ("audit_entries", ["at_us", "leaf_index"]),
    "ix_policies_target_id": ("policies", ["target", "id"]),
    "ix_policies_origin_id": ("policies", ["origin", "id"]),
    "ix_policies_proposed_by_id": ("policies", ["proposed_by", "id"]),
    "ix_policies_verdict_id": ("policies", ["verdict", "id"]),
    "ix_policies_knob_id": ("policies", ["knob", "id"]),
    "ix_policies_scope_id": ("policies", ["scope", "id"]),
    "ix_trials_target_began_us_id": ("trials", ["target", "began_us", "id"]),
    "ix_trials_state_began_us_id": ("trials", ["state", "began_us", "id"]),
    "ix_trials_began_us_id": ("trials", ["began_us", "id"]),
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
    drop((*BEFORE, *REBUILT))
    _set_stored(nullable=True)
    create((*REPLACING, *REBUILT, *NEW))
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Contract: what the new tables hold is lost; refused while entries lie in an archive."""
    archived = "SELECT count(*) FROM audit_entries WHERE stored IS NULL"
    if op.get_bind().execute(sa.text(archived)).scalar_one():
        raise Conflict("audit entries lie in archives, of which older revisions know nothing")
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
    with op.batch_alter_table("policies") as batch:
        for name in POLICY_COLUMNS:
            batch.drop_column(name)
    drop((*REPLACING, *REBUILT, *NEW))
    _set_stored(nullable=False)
    create((*BEFORE, *REBUILT))
    for table in reversed(TABLES):
        op.drop_table(table)


def _set_stored(*, nullable: bool) -> None:
    """On SQLite, batch mode copies, drops and renames the table, so its triggers go with it."""
    with op.batch_alter_table("audit_entries") as batch:
        batch.alter_column("stored", existing_type=sa.LargeBinary(), nullable=nullable)


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
    op.create_index("ix_overrides_target_id", "overrides", ["target", "id"])
    op.create_index("ix_overrides_state_id", "overrides", ["state", "id"])
    op.create_table(
        "declared_changes",
        sa.Column("id", ID, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_declared_changes"),
    )
    for last in ("id", "until_us"):
        name = f"ix_declared_changes_target_{last}"
        op.create_index(name, "declared_changes", ["target", last])
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
        sa.Column("entry", sa.BigInteger(), nullable=True),
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
    op.create_index("ix_deliveries_entry", "deliveries", ["entry"])
    op.create_index("ix_deliveries_hook_entry", "deliveries", ["hook", "entry"])
    op.create_index("ix_deliveries_hook_state_entry", "deliveries", ["hook", "state", "entry"])
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
