"""A line of an export or an archive: an entry, verbatim, as a string that any JSON parser reads.

::

    {"index":17,"leaf_hash":"9f0c…","entry":"{\\"action\\":\\"policy.kept\\",…}"}

``entry`` is a string that holds the stored bytes: a nested object would not survive being read and
written again. It is null for an entry whose archive was not at hand when the export was made.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One exported entry. ``leaf_hash`` in hex."""

    index: int
    leaf_hash: str
    entry: str | None


def encode_line(index: int, leaf_hash: bytes, stored: bytes | None) -> bytes:
    """The line, with its newline."""
    entry = None if stored is None else stored.decode()
    return msgspec.json.encode(Line(index=index, leaf_hash=leaf_hash.hex(), entry=entry)) + b"\n"
