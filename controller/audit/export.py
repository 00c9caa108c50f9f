"""The audit as JSON lines, one entry each, for auditors outside. See ``controller.audit.lines``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from controller.audit.archives import Sequential
from controller.audit.lines import Line, encode_line
from controller.store.address import StoreAddress
from controller.store.audit_file import open_audit
from policies.audit import Entry, leaf_hash
from signals.errors import Rejected


def export(
    where: StoreAddress | Path, *, after: int = -1, archives: Path | None = None
) -> Iterator[bytes]:
    """The lines of a store, each with its newline, from one snapshot, streamed.

    ``after``: only entries with a higher index, for a reader that has the others. ``archives``: the
    folder of archives at hand; an entry whose archive is not there goes out without its bytes.

    Rows go out as they lie, checked or not: ``read`` and ``verify`` are for that. Raises as
    ``open_audit``, and ``Rejected`` for a row that can't be written as a line at all.
    """
    packed = Sequential.of(archives)
    with open_audit(where) as file:
        for row in file.entries(after=after):
            try:
                stored = row.stored
                if stored is None and isinstance(row.leaf_index, int):
                    stored = packed.stored(row.leaf_index)
                yield encode_line(_index(row.leaf_index), _bytes(row.leaf_hash), _stored(stored))
            except (TypeError, ValueError) as error:
                raise Rejected(
                    f"audit entry {row.leaf_index} can't be exported: {error}", field="leaf_index"
                ) from error


def read(lines: Iterable[bytes | str]) -> Iterator[Entry]:
    """The entries of an export, each checked against its leaf hash and its place.

    Raises ``Rejected`` naming the line: not a line of an export, bytes that do not hash to their
    leaf hash, or an index out of order. An archived entry is an ``Entry`` that says no more.
    """
    decoder = msgspec.json.Decoder(Line)
    for expected, raw in enumerate(lines):
        try:
            line = decoder.decode(raw)
            if line.entry is None:
                yield _archived(line)
                continue
            entry = msgspec.json.decode(line.entry, type=Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _refused(expected, f"is not an entry: {error}") from error
        if leaf_hash(line.entry.encode()).hex() != line.leaf_hash:
            raise _refused(expected, "does not match its leaf hash")
        if not expected == line.index == entry.index:
            raise _refused(expected, f"is entry {entry.index}")
        yield entry


def _archived(line: Line) -> Entry:
    return Entry(
        index=line.index,
        at_us=0,
        actor="",
        action="",
        subject="",
        target="",
        details={},
        archived=True,
    )


def _refused(number: int, what: str) -> Rejected:
    return Rejected(f"audit export line {number + 1} {what}", field="line", value=number + 1)


def _index(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{type(value).__name__} where an index belongs")
    return value


def _stored(value: object) -> bytes | None:
    return None if value is None else _bytes(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} where bytes belong")
    return value
