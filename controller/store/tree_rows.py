"""Leaf hashes as they lie, and the signed heads as they were published."""

from __future__ import annotations

from sqlalchemy import insert, select

from controller.store.appending import Appending
from controller.store.rows import bounded
from controller.store.tables import audit_entries, audit_head, audit_tree_heads


class TreeRows(Appending):
    """The ``audit_tree_heads`` table, and what the tree is made of."""

    def audit_size(self) -> int:
        """Entries in the audit."""
        size: int = self._audited.execute(select(audit_head.c.size)).scalar_one()
        return size

    def leaf_hashes(self, first: int, last: int) -> list[bytes]:
        """Of entries ``first`` to ``last`` inclusive, in order."""
        columns = audit_entries.c
        query = select(columns.leaf_hash).where(columns.leaf_index.between(first, last))
        return list(self._audited.execute(query.order_by(columns.leaf_index)).scalars())

    def add_tree_head(self, size: int, at_us: int, body: str) -> None:
        """Append a signed head."""
        row = {"size": size, "at_us": at_us, "body": body}
        self._for_writing().execute(insert(audit_tree_heads), row)

    def tree_heads(self, *, limit: int = 100) -> list[str]:
        """The newest first."""
        columns = audit_tree_heads.c
        query = select(columns.body).order_by(columns.seq.desc()).limit(bounded(limit))
        return list(self._connection.execute(query).scalars())
