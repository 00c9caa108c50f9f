"""Audit entries: what was done, by whom, to what; canonical bytes and RFC 9162 leaf hashes.

The bytes are made once (RFC 8785 canonical JSON, no floats: durations are integers, figures are
strings made once), stored, and hashed as stored; nothing is ever re-serialised to be checked.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import rfc8785
from msgspec import Struct


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act. ``index`` counts from 0 without a hole; ``at_us`` never falls.

    ``archived``: its bytes lie in an archive that is not at hand, and ``details`` with them.
    """

    index: int
    at_us: int
    actor: str
    action: str
    subject: str
    target: str
    details: dict[str, Any]
    archived: bool = False


def canonical(entry: Entry) -> bytes:
    """The bytes that are stored and hashed."""
    return rfc8785.dumps(
        {
            "index": entry.index,
            "at_us": entry.at_us,
            "actor": entry.actor,
            "action": entry.action,
            "subject": entry.subject,
            "target": entry.target,
            "details": plain(entry.details),
        }
    )


def leaf_hash(stored: bytes) -> bytes:
    """RFC 9162, 2.1.1: SHA-256 of 0x00 and the entry."""
    return hashlib.sha256(b"\x00" + stored).digest()


EXACT = 2**53 - 1
"""Canonical JSON holds no greater integer: readers that use doubles would round it."""


def plain(value: Any) -> Any:
    """The value for canonical JSON: records as objects, floats and huge integers as strings.

    A float's string is its shortest exact decimal.
    """
    if isinstance(value, Struct):
        return plain(msgspec.to_builtins(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and abs(value) > EXACT:
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value
