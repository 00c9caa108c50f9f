"""The key that signs heads: in a file of its own, never in the database.

::

    keys/audit.key           the private key, 64 hex digits, for its owner only
    keys/audit.public.json   the log's name and every public key, oldest first: for auditors
    keys/audit.next.key      while a rotation is under way: it counts once its statement is outside
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controller.layout import Layout
from controller.processes.secret_files import read_secret, write_secret
from policies.heads import PublicKey, PublicKeys, Statement, key_id, public_bytes, signed
from policies.published import decode_keys, encode_keys
from signals.errors import Rejected, Unavailable


class Signer:
    """Holds the private key. Raises ``Unavailable`` without one, ``Rejected`` for a spoilt one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._read()

    @property
    def public(self) -> PublicKeys:
        """The log's name and its public keys."""
        return self._public

    @property
    def key(self) -> str:
        """The id of the key that signs now."""
        return key_id(public_bytes(self._private))

    def sign(self, statement: Statement) -> bytes:
        """The statement's line, without a newline."""
        return signed(statement, self._private)

    def prepare_next(self, at_us: int) -> PublicKey:
        """Make the key that comes next; one that came to nothing before is thrown away."""
        self._layout.key("audit.next").unlink(missing_ok=True)
        return _make(self._layout.key("audit.next"), at_us)

    def sign_over(self, statement: Statement) -> bytes:
        """Signed by this key and by the next."""
        return signed(statement, self._private, _private(self._layout.key("audit.next")))

    def waiting(self) -> str | None:
        """The id of a next key whose rotation may have been cut short."""
        path = self._layout.key("audit.next")
        return key_id(public_bytes(_private(path))) if path.exists() else None

    def adopt_next(self, at_us: int) -> None:
        """Sign with the next key from now on; the old private key is gone."""
        path = self._layout.key("audit.next")
        public = public_bytes(_private(path))
        known = self._public.by_id()
        if key_id(public) not in known:
            added = PublicKey(id=key_id(public), public=public.hex(), from_us=at_us)
            keys = msgspec.structs.replace(self._public, keys=(*self._public.keys, added))
            _write(self._layout.audit_public, encode_keys(keys))
        os.replace(path, self._layout.key("audit"))
        self._read()

    def _read(self) -> None:
        try:
            self._private = _private(self._layout.key("audit"))
            self._public = decode_keys(self._layout.audit_public.read_bytes())
        except OSError as error:
            raise Unavailable(f"the audit's key can't be read: {error}") from error


def make_audit_key(layout: Layout, at_us: int) -> bool:
    """Make the signing key where there is none; whether it was made.

    A private key that was lost can't sign its successor: the new one is listed beside it, and the
    verifier says that no rotation led there.
    """
    if layout.key("audit").exists() and layout.audit_public.exists():
        return False
    layout.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    if layout.key("audit").exists():
        public = public_bytes(_private(layout.key("audit")))
        made = PublicKey(id=key_id(public), public=public.hex(), from_us=at_us)
    else:
        made = _make(layout.key("audit"), at_us)
    if layout.audit_public.exists():
        before = decode_keys(layout.audit_public.read_bytes())
        keys = msgspec.structs.replace(before, keys=(*before.keys, made))
    else:
        keys = PublicKeys(log=f"log_{secrets.token_hex(8)}", keys=(made,))
    _write(layout.audit_public, encode_keys(keys))
    return True


def _make(path: Path, at_us: int) -> PublicKey:
    private = Ed25519PrivateKey.generate()
    write_secret(path, private.private_bytes_raw().hex())
    public = public_bytes(private)
    return PublicKey(id=key_id(public), public=public.hex(), from_us=at_us)


def _private(path: Path) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(read_secret(path)))
    except ValueError as error:
        raise Rejected(f"{path} holds no Ed25519 key: {error}", field="path") from error


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole, durably."""
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
