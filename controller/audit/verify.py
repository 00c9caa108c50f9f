"""Check a store's audit offline: from the database alone, or against heads that are kept outside.

::

    every entry     stored bytes hash to the stored leaf hash; columns agree with the bytes
    all entries     indexes 0, 1, 2, … up to the head; time never falls
    published heads each is signed; the log still has its tree hash at its size
    every policy    each recorded move is legal; the row is what its last recorded move made of it
    every other row the row is what was recorded when it was last changed: keys, metrics, overrides,
                    declared changes, baselines, segments, archives, modes, controls

So whoever edits, adds or removes a row of these tables, and leaves the rest, is found, and the row
is named. Whoever rewrites an entry *and* its hash, columns and all that depends on it, or cuts
entries off the end and sets everything back to match, makes a database that is consistent: that is
what the heads outside are for. With them he is found too, and the entry, or the range since the
head before, is named. What was appended since the last published head can't be checked against
anything outside; it is counted, and it is no finding. Rows of other tables (trials, decisions,
notes) are not bound to the audit; what matters of them is in its entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from controller.audit.act_histories import as_object
from controller.audit.archives import Sequential, file_digest
from controller.audit.chain import Chain, Leaf
from controller.audit.lines import Line
from controller.audit.restores import Restores
from controller.audit.rows import Histories
from controller.store.address import StoreAddress
from controller.store.audit_file import AuditFile, EntryRow, HeadRow, open_audit
from controller.store.guard_check import revisions
from policies.audit import Entry
from policies.heads import PublicKeys
from policies.published import Published, read_published
from signals.errors import Unavailable

MAX_FINDINGS: Final = 1000
BATCH: Final = 2000
COLUMNS: Final = ("at_us", "actor", "action", "subject", "target")
TRIGGERS: Final = frozenset(
    guard.name for made in revisions() for guard in made if guard.sqlite is not None
)
"""The guards that a SQLite store of the newest revision has."""


class Outside(Struct, frozen=True, kw_only=True):
    """What is kept where the database's owner can't reach: the sink's lines and the public keys."""

    lines: Iterable[bytes | str]
    keys: PublicKeys


class Verification(Struct, frozen=True, kw_only=True):
    """``root``: RFC 9162 tree hash over the stored bytes, hex. ``findings``: empty when clean.

    At most ``MAX_FINDINGS`` of them are kept; ``found`` counts all. ``heads``: published ones that
    the log agrees with; None when none were given. ``unpublished``: entries since the newest.
    ``archived``: entries whose bytes were not at hand. ``notes``: worth knowing, and no findings.
    """

    entries: int
    root: str
    policies: int
    keys: int
    definitions: int
    findings: tuple[str, ...]
    found: int
    rows: dict[str, int] = {}
    archived: int = 0
    heads: int | None = None
    unpublished: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return self.found == 0


def verify(
    where: StoreAddress | Path,
    *,
    outside: Outside | None = None,
    archives: Path | None = None,
) -> Verification:
    """Check a store: live, or a copy. ``archives``: the folder of those at hand.

    Raises as ``open_audit``.
    """
    check = _Check(outside, Sequential.of(archives))  # heads first: the log only grows meanwhile
    with open_audit(where) as file:
        check.entries(file)
        check.rows(file, archives)
        return check.verification()


def verify_export(
    lines: Iterable[bytes | str], *, outside: Outside | None, archives: Iterable[Path] = ()
) -> Verification:
    """Check an export: everything but the rows, which it has not."""
    check = _Check(outside, Sequential(archives))
    check.lines(lines)
    return check.verification()


class _Check:
    """One pass over one log.

    ``blind``: an export lacks bytes of entries, so what the others do to their rows, or whether
    the log has an entry of each restore, can't be judged.
    """

    def __init__(self, outside: Outside | None, packed: Sequential) -> None:
        self._published = None if outside is None else _read(outside)
        self._chain = Chain(() if self._published is None else self._published.checkpoints)
        self._restores = Restores(() if self._published is None else self._published.restores)
        self._packed = packed
        self._histories = Histories()
        self._findings: list[str] = []
        self._found = 0
        self._last_us = 0
        self._blind = False
        self._counts: dict[str, int] = {}
        self._notes: list[str] = []
        if self._published is not None:
            self._note(iter(self._published.findings))
            self._notes += self._published.notes

    def entries(self, file: AuditFile) -> None:
        """The log of a store."""
        rows = map(self._filled, file.entries())
        while batch := list(islice(rows, BATCH)):
            self._note(self._chain.take([(r.leaf_index, r.leaf_hash, r.stored) for r in batch]))
            for row in batch:
                self._note(self._row(row))
        self._ended()
        self._note(self._heads(file.heads()))

    def lines(self, lines: Iterable[bytes | str]) -> None:
        """The log of an export."""
        decoded = self._decoded(lines)
        while batch := list(islice(decoded, BATCH)):
            self._note(self._chain.take(batch))
            for index, _, stored in batch:
                if isinstance(stored, bytes):
                    self._note(self._stored(f"audit entry {index}", stored, index))
                self._blind = self._blind or stored is None
        self._ended()

    def rows(self, file: AuditFile, archives: Path | None) -> None:
        """The rows that the log speaks of."""
        for name, checked in self._histories.checks(file):
            self._counts[name] = 0
            for found in checked:
                self._counts[name] += 1
                self._note(found)
        self._note(self._histories.gone())
        self._note(file.weak_guards())
        self._note(self._archived(file, archives))

    def verification(self) -> Verification:
        """What was found."""
        published, tree = self._published, self._chain.tree
        named = ("policies", "keys", "metric_definitions")
        return Verification(
            entries=tree.size,
            root=tree.root().hex(),
            policies=self._counts.get("policies", 0),
            keys=self._counts.get("keys", 0),
            definitions=self._counts.get("metric_definitions", 0),
            findings=tuple(self._findings),
            found=self._found,
            rows={n: count for n, count in self._counts.items() if count and n not in named},
            archived=self._chain.archived,
            heads=None if published is None else self._chain.matched,
            unpublished=None if published is None else max(0, tree.size - self._covered(published)),
            notes=tuple(self._notes),
        )

    def _note(self, findings: Iterator[str]) -> None:
        for finding in findings:
            self._found += 1
            if len(self._findings) < MAX_FINDINGS:
                self._findings.append(finding)

    def _ended(self) -> None:
        self._note(self._chain.end())
        if not self._blind:
            self._note(self._restores.missing())
        if self._published is not None:
            self._notes += told(self._published)
        if self._chain.archived:
            self._notes.append(
                f"{self._chain.archived} entries are in archives that are not at hand: their leaf"
                " hashes count, their columns are not proven"
            )

    def _covered(self, published: Published) -> int:
        return published.checkpoints[-1].size if published.checkpoints else 0

    def _filled(self, row: EntryRow) -> EntryRow:
        if row.stored is not None or not isinstance(row.leaf_index, int):
            return row
        return row._replace(stored=self._packed.stored(row.leaf_index))

    def _decoded(self, lines: Iterable[bytes | str]) -> Iterator[Leaf]:
        decoder = msgspec.json.Decoder(Line)
        for number, raw in enumerate(lines, 1):
            try:
                line = decoder.decode(raw)
                leaf = bytes.fromhex(line.leaf_hash)
            except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
                self._note(iter([f"export line {number} is not an entry: {error}"]))
                continue
            stored = None if line.entry is None else line.entry.encode()
            yield line.index, leaf, stored or self._packed.stored(line.index)

    def _row(self, row: EntryRow) -> Iterator[str]:
        """Findings of one entry of a store, read in the order of indexes."""
        name = f"audit entry {row.leaf_index}"
        if isinstance(row.stored, bytes):
            yield from self._stored(name, row.stored, row.leaf_index, row)
        elif row.stored is None and (entry := _from_columns(row)) is not None:
            yield from self._time(name, entry.at_us)
            yield from self._histories.see(entry)
            self._restores.see(entry)

    def _stored(
        self, name: str, stored: bytes, index: object, row: EntryRow | None = None
    ) -> Iterator[str]:
        try:
            entry = msgspec.json.decode(stored, type=Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield f"{name}: stored bytes are not an entry: {error}"
            return
        if index != entry.index:
            yield f"{name}: its bytes are those of entry {entry.index}"
        if row is not None:
            yield from _columns(name, row, entry)
        yield from self._time(name, entry.at_us)
        if not self._blind:
            yield from self._histories.see(entry)
        self._restores.see(entry)

    def _time(self, name: str, at_us: int) -> Iterator[str]:
        if at_us < self._last_us:
            yield f"{name}: its time is before that of the entry before it"
        self._last_us = max(self._last_us, at_us)

    def _heads(self, heads: list[HeadRow]) -> Iterator[str]:
        if len(heads) != 1:
            yield f"audit head: there are {len(heads)} rows, not 1"
            return
        end = self._chain.next
        if heads[0].size != end:
            yield f"audit head: it says {heads[0].size} entries, the last index makes {end}"
        if heads[0].at_us != self._last_us:
            yield f"audit head: its time {heads[0].at_us} is not the last entry's {self._last_us}"

    def _archived(self, file: AuditFile, folder: Path | None) -> Iterator[str]:
        """Bytes may be gone only where an archive holds them, and a file is the one it was."""
        last = -1
        columns = ("last_index", "sha256", "body")
        for end, digest, body in file.table("audit_archives", columns, order="first_index"):
            last = end if isinstance(end, int) else last
            path = None if folder is None else folder / Path(_file_of(body)).name
            if path is not None and path.is_file():
                try:
                    if not isinstance(digest, bytes) or file_digest(path) != digest.hex():
                        yield f"archive {path.name}: it is not the file that was sealed"
                except Unavailable as error:
                    yield f"archive {path.name}: {error.detail}"
        if self._chain.last_archived > last:
            yield f"audit entry {self._chain.last_archived}: no bytes, and no archive holds it"


def told(published: Published) -> Iterator[str]:
    """Rotations and restores, in words: an auditor wants to know of each."""
    for rotation in published.rotations:
        yield f"key {rotation.key} handed over to {rotation.new}, by {rotation.by}"
    for restore, _ in published.restores:
        yield (
            f"a backup was put back by {restore.by} ({restore.reason}): the log went on from entry"
            f" {restore.size}; heads of up to {restore.last_size} entries are given up"
        )


def _read(outside: Outside) -> Published:
    return read_published(outside.lines, outside.keys)


def _file_of(body: object) -> str:
    return str(as_object(body).get("file", ""))


def _from_columns(row: EntryRow) -> Entry | None:
    """What the columns of an archived entry tell; None where they are no entry's."""
    try:
        return msgspec.convert(
            {
                "index": row.leaf_index,
                "details": {},
                "archived": True,
                **{column: getattr(row, column) for column in COLUMNS},
            },
            Entry,
        )
    except msgspec.ValidationError:
        return None


def _columns(name: str, row: EntryRow, entry: Entry) -> Iterator[str]:
    for column in COLUMNS:
        said, meant = getattr(row, column), getattr(entry, column)
        if said != meant:
            yield f"{name}: column {column} says {said!r}, its bytes say {meant!r}"
