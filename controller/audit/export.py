"""The audit as JSON lines, one entry each, for auditors outside.

::

    {"index":17,"leaf_hash":"9f0c…","entry":"{\\"action\\":\\"policy.kept\\",…}"}

``entry`` is a string that holds the stored bytes verbatim: any JSON parser gives back exactly what
was hashed, which a nested object would not survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from controller.store.audit_file import open_audit
from policies.audit import Entry, leaf_hash
from signals.errors import Rejected


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One exported entry. ``leaf_hash`` in hex."""

    index: int
    leaf_hash: str
    entry: str


def export(path: Path, *, after: int = -1) -> Iterator[bytes]:
    """The lines of the store at ``path``, each with its newline, from one snapshot, streamed.

    ``after``: only entries with a higher index, for a reader that has the others.

    Rows go out as they lie, checked or not: ``read`` and ``verify`` are for that. Raises as
    ``open_audit``, and ``Rejected`` for a row that can't be written as a line at all.
    """
    encoder = msgspec.json.Encoder()
    with open_audit(path) as file:
        for row in file.entries(after=after):
            try:
                line = msgspec.convert(
                    {
                        "index": row.leaf_index,
                        "leaf_hash": _bytes(row.leaf_hash).hex(),
                        "entry": _bytes(row.stored).decode(),
                    },
                    Line,
                )
            except (TypeError, ValueError) as error:
                raise Rejected(
                    f"audit entry {row.leaf_index} can't be exported: {error}", field="leaf_index"
                ) from error
            yield encoder.encode(line) + b"\n"


def read(lines: Iterable[bytes | str]) -> Iterator[Entry]:
    """The entries of an export, each checked against its leaf hash and its place.

    Raises ``Rejected`` naming the line: not a line of an export, bytes that do not hash to their
    leaf hash, or an index out of order.
    """
    decoder = msgspec.json.Decoder(Line)
    for expected, raw in enumerate(lines):
        try:
            line = decoder.decode(raw)
            entry = msgspec.json.decode(line.entry, type=Entry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _refused(expected, f"is not an entry: {error}") from error
        if leaf_hash(line.entry.encode()).hex() != line.leaf_hash:
            raise _refused(expected, "does not match its leaf hash")
        if not expected == line.index == entry.index:
            raise _refused(expected, f"is entry {entry.index}")
        yield entry


def _refused(number: int, what: str) -> Rejected:
    return Rejected(f"audit export line {number + 1} {what}", field="line", value=number + 1)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} where bytes belong")
    return value
