"""Audit entries: what was done, by whom, to what; canonical bytes and RFC 9162 leaf hashes.

The bytes are made once (RFC 8785 canonical JSON, no floats: durations are integers, figures are
strings made once), stored, and hashed as stored; nothing is ever re-serialised to be checked.
"""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring as _quoted
from typing import Any, Final

import msgspec
import rfc8785
from msgspec import Struct

_WRITER: Final = msgspec.json.Encoder(order="sorted")


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
    return entry_bytes(
        index=entry.index,
        at_us=entry.at_us,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        target=entry.target,
        details=canonical_text(entry.details),
    )


def entry_bytes(
    *, index: int, at_us: int, actor: str, action: str, subject: str, target: str, details: str
) -> bytes:
    """An entry's bytes around its details, which are canonical already: its index comes last.

    Members are in the order of their names, as RFC 8785 has them.
    """
    return (
        f'{{"action":{_quoted(action)},"actor":{_quoted(actor)},"at_us":{at_us},'
        f'"details":{details},"index":{index},"subject":{_quoted(subject)},'
        f'"target":{_quoted(target)}}}'
    ).encode()


def canonical_text(value: Any) -> str:
    """RFC 8785 JSON of what ``plain`` makes of a value.

    msgspec agrees with the RFC on all that ``plain`` leaves, but for the order of members whose
    names go beyond the basic plane: what is not ASCII is written the long way.
    """
    made = plain(value)
    written = _WRITER.encode(made)
    return (written if written.isascii() else rfc8785.dumps(made)).decode()


def leaf_hash(stored: bytes) -> bytes:
    """RFC 9162, 2.1.1: SHA-256 of 0x00 and the entry."""
    return hashlib.sha256(b"\x00" + stored).digest()


EXACT = 2**53 - 1
"""Canonical JSON holds no greater integer: readers that use doubles would round it."""


def plain(value: Any) -> Any:
    """The value for canonical JSON: records as objects, floats and huge integers as strings.

    A float's string is its shortest exact decimal.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is dict:
        return {str(key): plain(inner) for key, inner in value.items()}
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
