"""The audit only grows: the database itself refuses to change, remove or replace an entry.

``INSERT OR REPLACE`` deletes without firing delete triggers, so inserts are guarded too: an entry
takes exactly the index that the head row names, and the head only counts up. A later revision that
rebuilds one of these tables (batch mode copies, drops and renames) must create the triggers again.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

TRIGGERS = {
    "audit_entries_never_change": """
        BEFORE UPDATE ON audit_entries
        BEGIN SELECT RAISE(ABORT, 'audit entries never change'); END""",
    "audit_entries_never_go": """
        BEFORE DELETE ON audit_entries
        BEGIN SELECT RAISE(ABORT, 'audit entries never go'); END""",
    "audit_entries_in_order": """
        BEFORE INSERT ON audit_entries
        WHEN NEW.leaf_index IS NOT (SELECT size FROM audit_head)
        BEGIN SELECT RAISE(ABORT, 'an audit entry takes the index of the head'); END""",
    "audit_head_counts_up": """
        BEFORE UPDATE ON audit_head
        WHEN NEW.size <> OLD.size + 1 OR NEW.at_us < OLD.at_us OR NEW.id <> OLD.id
        BEGIN SELECT RAISE(ABORT, 'the audit head counts up'); END""",
    "audit_head_never_goes": """
        BEFORE DELETE ON audit_head
        BEGIN SELECT RAISE(ABORT, 'the audit head never goes'); END""",
    "audit_head_is_one": """
        BEFORE INSERT ON audit_head
        BEGIN SELECT RAISE(ABORT, 'there is one audit head'); END""",
}


def upgrade() -> None:
    """Guard the audit."""
    for name, body in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {body}")


def downgrade() -> None:
    """Leave it unguarded, with all its entries."""
    for name in TRIGGERS:
        op.execute(f"DROP TRIGGER {name}")
