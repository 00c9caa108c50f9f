"""Restore statements that stand outside: the log that goes on after one must say so too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies.audit import Entry
from policies.heads import Restore


class Restores:
    """Looks for the entry ``audit.restored`` of each statement that a later one has not undone."""

    def __init__(self, statements: Sequence[tuple[Restore, str]]) -> None:
        self._wanted = {
            body: restore
            for place, (restore, body) in enumerate(statements)
            if all(later.size > restore.size for later, _ in statements[place + 1 :])
        }
        self._archived = 0

    def see(self, entry: Entry) -> None:
        """Take in one entry."""
        if entry.action != "audit.restored":
            return
        if entry.archived:
            self._archived += 1
        else:
            self._wanted.pop(str(entry.details.get("statement")), None)

    def missing(self) -> Iterator[str]:
        """Findings: statements without an entry; an archived entry may be that of any."""
        for restore in list(self._wanted.values())[self._archived :]:
            yield (
                f"the restore to {restore.size} entries by {restore.by} is signed outside,"
                " and the log has no entry of it"
            )
