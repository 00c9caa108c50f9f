"""Statements about the audit that are signed and kept outside: heads, rotations, restores.

==============  ==================================================================================
``head``        "the log has ``size`` entries, and its tree hash is ``root``"
``rotation``    "from now on heads are signed by ``new``", signed by the old and by the new key
``restore``     "a backup was put back: the log goes on from the head at ``size``, and the later
                ones are given up, up to the newest, which had ``last_size`` entries"
==============  ==================================================================================

A statement is canonical JSON (RFC 8785: names sorted, no spaces), and these bytes are what Ed25519
signs. A line of the sink holds them verbatim in a string, so nobody has to write JSON the same way
to check a signature::

    {"body":"{\\"at_us\\":…,\\"key\\":…,…}","signatures":{"<key id>":"<base64>"}}

A key's id is the first 16 hex digits of the SHA-256 of its 32 public bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

import msgspec
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from msgspec import Struct

from signals.errors import Rejected


class Head(Struct, frozen=True, kw_only=True, tag_field="type", tag="head"):
    """A signed tree head. ``root`` in hex; ``key``: id of the key that signs it."""

    log: str
    size: int
    root: str
    at_us: int
    key: str


class Rotation(Struct, frozen=True, kw_only=True, tag_field="type", tag="rotation"):
    """``key`` hands over to ``new``, whose public bytes are ``public`` (hex)."""

    log: str
    at_us: int
    key: str
    new: str
    public: str
    by: str


class Restore(Struct, frozen=True, kw_only=True, tag_field="type", tag="restore"):
    """The log goes on from the published head (``size``, ``root``).

    Later ones are given up; the newest of them was (``last_size``, ``last_root``).
    """

    log: str
    at_us: int
    key: str
    size: int
    root: str
    last_size: int
    last_root: str
    by: str
    reason: str


Statement = Head | Rotation | Restore


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the sink: a statement's bytes as text, and signatures by key id."""

    body: str
    signatures: dict[str, str]


class PublicKey(Struct, frozen=True, kw_only=True):
    """A key by which heads are checked. ``public``: 32 bytes in hex."""

    id: str
    public: str
    from_us: int


class PublicKeys(Struct, frozen=True, kw_only=True):
    """The public keys' file: the log's name and its keys, oldest first."""

    log: str
    keys: tuple[PublicKey, ...]

    def by_id(self) -> dict[str, str]:
        """Public bytes in hex by key id."""
        return {key.id: key.public for key in self.keys}


def canonical(statement: Statement) -> bytes:
    """The bytes that are signed."""
    return rfc8785.dumps(msgspec.to_builtins(statement))


def signed(statement: Statement, *keys: Ed25519PrivateKey) -> bytes:
    """The statement's line, signed by each key; without a newline."""
    body = canonical(statement)
    signatures = {
        key_id(public_bytes(key)): base64.b64encode(key.sign(body)).decode() for key in keys
    }
    return msgspec.json.encode(Line(body=body.decode(), signatures=signatures))


def parsed(line: bytes | str) -> tuple[Line, Statement]:
    """What a line says, unchecked. Raises ``Rejected`` where it is no statement."""
    try:
        read = msgspec.json.decode(line, type=Line)
        statement: Statement = msgspec.json.decode(read.body, type=Statement)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"not a statement: {error}", field="line") from error
    return read, statement


def signed_by(line: Line, key: str, public_keys: Mapping[str, str]) -> bool:
    """Whether the line carries a valid signature of that key, which must be a known one."""
    public, signature = public_keys.get(key), line.signatures.get(key)
    if public is None or signature is None:
        return False
    try:
        verifier = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        verifier.verify(base64.b64decode(signature, validate=True), line.body.encode())
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The 32 public bytes of a private key."""
    return key.public_key().public_bytes_raw()


def key_id(public: bytes) -> str:
    """What a key is called in statements."""
    return hashlib.sha256(public).hexdigest()[:16]
