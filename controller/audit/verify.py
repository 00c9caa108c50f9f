"""Check a store's audit offline, from the file alone.

::

    every entry     stored bytes hash to the stored leaf hash; columns agree with the bytes
    all entries     indexes 0, 1, 2, … up to the head; time never falls
    every policy    each recorded move is legal; the row is what its last recorded move made of it
    every key       the row is what was recorded when it was created or revoked
    every metric    each version is the row that was recorded when it was declared or retired

So whoever edits, adds or removes a row of ``audit_entries``, ``policies``, ``keys`` or
``metric_definitions``, and leaves the rest, is found, and the row is named. What this can't see, as
long as no signed head is kept outside the database: an insider who rewrites an entry *and* its
hash, columns and all that depends on it, or who cuts entries off the end and sets the head and the
rows back to match. The file is then consistent. Compare ``root`` with one that was noted earlier
and elsewhere: a tree that only grew can show that root again at the old size, a rewritten one
can't. Rows of other tables (trials, decisions, modes, notes) are not bound to the audit; what
matters of them is in its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from controller.audit.histories import KeyHistories, MetricHistories, PolicyHistories
from controller.store.audit_file import AuditFile, EntryRow, HeadRow, open_audit
from policies.audit import Entry, leaf_hash
from policies.merkle import Tree

Row = TypeVar("Row")

MAX_FINDINGS: Final = 1000
COLUMNS: Final = ("at_us", "actor", "action", "subject", "target")
TRIGGERS: Final = frozenset(
    {
        "audit_entries_never_change",
        "audit_entries_never_go",
        "audit_entries_in_order",
        "audit_head_counts_up",
        "audit_head_never_goes",
        "audit_head_is_one",
        "metric_definitions_only_retire",
        "metric_definitions_never_go",
        "metric_definitions_in_order",
        "audit_archives_never_change",
        "audit_archives_never_go",
        "audit_archives_in_order",
    }
)


class Verification(Struct, frozen=True, kw_only=True):
    """``root``: RFC 9162 tree hash over the stored bytes, hex. ``findings``: empty when clean.

    At most ``MAX_FINDINGS`` of them are kept; ``found`` counts all.
    """

    entries: int
    root: str
    policies: int
    keys: int
    definitions: int
    findings: tuple[str, ...]
    found: int

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return self.found == 0


def verify(path: Path) -> Verification:
    """Check the store at ``path``: live, or a copy. Raises as ``open_audit``."""
    with open_audit(path) as file:
        return _Check().run(file)


class _Check:
    """One pass over one snapshot."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._policies = PolicyHistories()
        self._keys = KeyHistories()
        self._metrics = MetricHistories()
        self._findings: list[str] = []
        self._found = 0
        self._next = 0
        self._last_us = 0

    def run(self, file: AuditFile) -> Verification:
        for row in file.entries():
            self._note(self._entry(row))
        self._note(self._heads(file.heads()))
        policies = self._rows(file.policies(), self._policies.check)
        keys = self._rows(file.keys(), self._keys.check)
        definitions = self._rows(file.definitions(), self._metrics.check)
        for histories in (self._policies, self._keys, self._metrics):
            self._note(histories.gone())
        missing = sorted(_guards(file.tables()) - file.triggers())
        self._note(iter([f"database: the trigger {name} is missing" for name in missing]))
        return Verification(
            entries=self._tree.size,
            root=self._tree.root().hex(),
            policies=policies,
            keys=keys,
            definitions=definitions,
            findings=tuple(self._findings),
            found=self._found,
        )

    def _note(self, findings: Iterator[str]) -> None:
        for finding in findings:
            self._found += 1
            if len(self._findings) < MAX_FINDINGS:
                self._findings.append(finding)

    def _rows(self, rows: Iterator[Row], check: Callable[[Row], Iterator[str]]) -> int:
        count = 0
        for row in rows:
            self._note(check(row))
            count += 1
        return count

    def _entry(self, row: EntryRow) -> Iterator[str]:
        """Findings of one entry, read in the order of indexes."""
        yield from self._index(row.leaf_index)
        name = f"audit entry {row.leaf_index}"
        if not isinstance(row.stored, bytes):
            yield f"{name}: it has no stored bytes"
            return
        hashed = leaf_hash(row.stored)
        self._tree.add(hashed)
        if row.leaf_hash != hashed:
            yield f"{name}: stored bytes do not match their leaf hash"
        try:
            entry = msgspec.json.decode(row.stored, type=Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield f"{name}: stored bytes are not an entry: {error}"
            return
        yield from _columns(name, row, entry)
        yield from self._time(name, entry.at_us)
        yield from self._policies.see(entry)
        yield from self._keys.see(entry)
        yield from self._metrics.see(entry)

    def _index(self, index: object) -> Iterator[str]:
        if not isinstance(index, int):
            yield f"audit entry {index!r}: its index is not a number"
            return
        if index < self._next:
            yield f"audit entry {index}: its index is below 0"
        for missing in range(self._next, min(index, self._next + MAX_FINDINGS)):
            yield f"audit entry {missing}: it is missing"
        self._next = max(self._next, index + 1)

    def _time(self, name: str, at_us: int) -> Iterator[str]:
        if at_us < self._last_us:
            yield f"{name}: its time is before that of the entry before it"
        self._last_us = max(self._last_us, at_us)

    def _heads(self, heads: list[HeadRow]) -> Iterator[str]:
        if len(heads) != 1:
            yield f"audit head: there are {len(heads)} rows, not 1"
            return
        if heads[0].size != self._next:
            yield f"audit head: it says {heads[0].size} entries, the last index makes {self._next}"
        if heads[0].at_us != self._last_us:
            yield f"audit head: its time {heads[0].at_us} is not the last entry's {self._last_us}"


def _guards(tables: frozenset[str]) -> frozenset[str]:
    """The triggers of these tables: a copy from before revision 0003 lacks some, rightly."""
    return frozenset(name for name in TRIGGERS if any(name.startswith(table) for table in tables))


def _columns(name: str, row: EntryRow, entry: Entry) -> Iterator[str]:
    if row.leaf_index != entry.index:
        yield f"{name}: its bytes are those of entry {entry.index}"
    for column in COLUMNS:
        said, meant = getattr(row, column), getattr(entry, column)
        if said != meant:
            yield f"{name}: column {column} says {said!r}, its bytes say {meant!r}"
