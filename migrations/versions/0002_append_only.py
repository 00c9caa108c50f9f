"""The audit only grows: the database itself refuses to change, remove or replace an entry.

``INSERT OR REPLACE`` deletes without firing delete triggers, so inserts are guarded too: an entry
takes exactly the index that the head row names, and the head only counts up. A later revision that
rebuilds one of these tables (batch mode copies, drops and renames) must create the triggers again.
"""

from __future__ import annotations

from migrations.guards import Guard, create, drop, never_empties

revision = "0002"
down_revision = "0001"

GUARDS = (
    Guard("audit_entries_never_change", "UPDATE", "audit_entries", "audit entries never change"),
    Guard("audit_entries_never_go", "DELETE", "audit_entries", "audit entries never go"),
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
    Guard("audit_head_never_goes", "DELETE", "audit_head", "the audit head never goes"),
    Guard("audit_head_is_one", "INSERT", "audit_head", "there is one audit head"),
    never_empties("audit_entries", "audit entries never go"),
    never_empties("audit_head", "the audit head never goes"),
)


def upgrade() -> None:
    """Guard the audit."""
    create(GUARDS)


def downgrade() -> None:
    """Leave it unguarded, with all its entries."""
    drop(GUARDS)
