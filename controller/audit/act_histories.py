"""What the audit says of overrides, changes, baselines, archives, modes and controls; of segments.

Every entry that changes such a row holds the digest of its body (``content``), or the value itself.
So a row is what its last entry made of it, or it was altered beside the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from controller.audit.histories import UNKNOWN, recorded
from controller.store.rows import content
from policies.audit import Entry

Row = tuple[object, ...]


class Kind(NamedTuple):
    """Rows of one table and the entries that are about them.

    ``columns`` by the names that they have in the body; ``free``: columns that no body has.
    """

    noun: str
    table: str
    columns: dict[str, str]
    order: str
    subject: Callable[[dict[str, object]], str]
    begins: frozenset[str]
    family: str
    free: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read; the body last."""
        return (*self.columns, *self.free, "body")


KINDS: Final = (
    Kind(
        "override",
        "overrides",
        {name: name for name in ("id", "target", "state", "rev", "expires_us")},
        "id",
        lambda row: str(row["id"]),
        frozenset({"override.set"}),
        "override.",
    ),
    Kind(
        "change",
        "declared_changes",
        {name: name for name in ("id", "target", "from_us", "until_us")},
        "id",
        lambda row: str(row["id"]),
        frozenset({"change.declared"}),
        "change.",
    ),
    Kind(
        "baseline",
        "baselines",
        {name: name for name in ("target", "version", "from_us")},
        "target, version",
        lambda row: f"{row['target']}@{row['version']}",
        frozenset({"baseline.declared"}),
        "baseline.",
    ),
    Kind(
        "archive",
        "audit_archives",
        {"first_index": "first", "last_index": "last", "sha256": "sha256"},
        "first_index",
        lambda row: str(row.get("file", f"of entry {row['first_index']}")),
        frozenset({"audit.sealed"}),
        "audit.sealed",
    ),
)


class BodyHistories:
    """Rows of one kind: begun once, changed after that, each time with the digest of the body."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._contents: dict[str, tuple[object, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; findings where it is no legal next step of its row."""
        if not entry.action.startswith(self.kind.family):
            return
        if not entry.archived and "content" not in entry.details:
            return
        known = entry.subject in self._contents
        if known == (entry.action in self.kind.begins):
            yield (
                f"audit entry {entry.index}: {self.kind.noun} {entry.subject}"
                f" can't be {entry.action} here"
            )
        self._contents[entry.subject] = (recorded(entry), entry.index)

    def check(self, row: Row) -> Iterator[str]:
        """Findings where a row is not what the audit's last entry of it says."""
        cells = dict(zip(self.kind.names, row, strict=True))
        body = as_object(cells["body"])
        subject = self.kind.subject({**body, **cells})
        name = f"{self.kind.noun} {subject}"
        found = self._contents.pop(subject, None)
        if found is None:
            yield f"{name}: the row is there, the audit has no entry of it"
            return
        if not is_recorded(cells["body"], found[0]):
            yield f"{name}: its body is not the one that audit entry {found[1]} recorded"
        for column, key in self.kind.columns.items():
            said = cells[column]
            said = said.hex() if isinstance(said, bytes) else said
            if said != body.get(key):
                yield f"{name}: column {column} says {said!r}, its body says {body.get(key)!r}"

    def gone(self) -> Iterator[str]:
        """Rows that the audit knows and none was checked of. Call it last."""
        for subject, (_, index) in self._contents.items():
            yield f"{self.kind.noun} {subject}: audit entry {index} has it, the row is gone"


SEGMENTS: Final = Kind(
    "segment",
    "segments",
    {name: name for name in ("target", "replica", "from_us", "incarnation", "version")},
    "seq",
    lambda row: f"{row['target']}/{row['replica']}",
    frozenset({"settings.observed", "settings.unknown"}),
    "settings.",
    ("until_us", "entry"),
)


class SegmentHistories:
    """Every replica's segments: each recorded by an entry, each ending where the next begins."""

    def __init__(self) -> None:
        self._contents: dict[object, object] = {}
        self._ends: dict[object, object] = {}
        self._open: dict[tuple[str, str], int] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry."""
        if entry.action in SEGMENTS.begins:
            shown = entry.details.get("segment")
            begins = shown.get("from_us") if isinstance(shown, dict) else None
            before = self._open.get((entry.target, entry.subject))
            if before is not None:
                self._ends[before] = UNKNOWN if entry.archived else begins
            self._open[entry.target, entry.subject] = entry.index
            self._contents[entry.index] = recorded(entry)
            self._ends[entry.index] = None
        yield from ()

    def check(self, row: Row) -> Iterator[str]:
        """Findings where a row is not what was recorded, or does not end where it should."""
        cells = dict(zip(SEGMENTS.names, row, strict=True))
        body = as_object(cells["body"])
        name = f"segment {cells['target']}/{cells['replica']} from {cells['from_us']}"
        index = cells["entry"]
        if index not in self._contents:
            yield f"{name}: the row is there, the audit has no entry {index} of it"
            return
        if not is_recorded(cells["body"], self._contents.pop(index)):
            yield f"{name}: its body is not the one that audit entry {index} recorded"
        ends = self._ends.pop(index)
        if ends is not UNKNOWN and cells["until_us"] != ends:
            yield f"{name}: it ends at {cells['until_us']}, and the next begins at {ends}"
        for column in SEGMENTS.columns:
            if cells[column] != body.get(column):
                yield (
                    f"{name}: column {column} says {cells[column]!r},"
                    f" its body says {body.get(column)!r}"
                )

    def gone(self) -> Iterator[str]:
        """Segments that the audit knows and no row was checked of. Call it last."""
        for index in self._contents:
            yield f"segment of audit entry {index}: the row is gone"


class ModeHistories:
    """How far the loop may go with each knob, as it was last set."""

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str], tuple[object, int]] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry."""
        if entry.action == "mode.set":
            after = UNKNOWN if entry.archived else entry.details.get("after")
            self._modes[entry.target, entry.subject] = (after, entry.index)
        yield from ()

    def check(self, row: Row) -> Iterator[str]:
        """``row``: target, knob, mode."""
        target, knob, mode = row
        name = f"mode of {target}.{knob}"
        found = self._modes.pop((str(target), str(knob)), None)
        if found is None:
            yield f"{name}: the row is there, the audit has no entry of it"
        elif found[0] is not UNKNOWN and found[0] != mode:
            yield f"{name}: row says {mode}, audit entry {found[1]} says {found[0]}"

    def gone(self) -> Iterator[str]:
        """Modes that the audit knows and no row was checked of. Call it last."""
        for (target, knob), (_, index) in self._modes.items():
            yield f"mode of {target}.{knob}: audit entry {index} has it, the row is gone"


CONTROL: Final = {
    "control.held": "hold",
    "control.killed": "killed",
    "control.detached": "detached",
}
"""Which member of the row's body an entry sets; all others are false then."""


class ControlHistories:
    """Whether each target is held, killed or detached, as was last said, by whom and why."""

    def __init__(self) -> None:
        self._said: dict[str, Entry] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry."""
        if entry.action in CONTROL or entry.action == "control.released":
            self._said[entry.target] = entry
        yield from ()

    def check(self, row: Row) -> Iterator[str]:
        """``row``: target, body."""
        target, body = str(row[0]), as_object(row[1])
        entry = self._said.pop(target, None)
        name = f"control of {target}"
        if body.get("target") != target:
            yield f"{name}: its body is of {body.get('target')!r}"
        said = None if entry is None else CONTROL.get(entry.action)
        state = [member for member in CONTROL.values() if body.get(member)]
        if state != ([] if said is None else [said]):
            yield f"{name}: row says {' and '.join(state) or 'nothing'}, audit says {said}"
        if entry is None or said is None:
            return
        for member, meant in {"actor": entry.actor, **entry.details}.items():
            if member in ("actor", "reason", "since_us") and body.get(member) != meant:
                yield f"{name}: row says {member} {body.get(member)!r}, audit says {meant!r}"

    def gone(self) -> Iterator[str]:
        """Targets that are held, killed or detached and have no row. Call it last."""
        for target, entry in self._said.items():
            if entry.action in CONTROL:
                yield f"control of {target}: audit entry {entry.index} has it, the row is gone"


def as_object(body: object) -> dict[str, Any]:
    """A body's members; empty where it is none."""
    if not isinstance(body, str):
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}


def is_recorded(body: object, digest: object) -> bool:
    """Whether a body is the one whose digest was recorded; what nobody can know passes."""
    if digest is UNKNOWN:
        return True
    try:
        return isinstance(body, str) and content(body) == digest
    except UnicodeEncodeError:
        return False
