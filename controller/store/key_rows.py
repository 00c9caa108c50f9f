"""Keys: the SHA-256 of a token and whose it is. The token itself is never here."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from controller.store.audit_rows import AuditRows
from controller.store.port import Principal
from controller.store.rows import decoded, encoded
from controller.store.tables import keys
from signals.errors import Conflict, NotFound


class KeyRows(AuditRows):
    """The ``keys`` table."""

    def add_key(self, principal: Principal, token_sha256: bytes, *, actor: str, at_us: int) -> None:
        """Raises ``Conflict`` where the id or the hash is taken."""
        body = encoded(principal)
        row = {"id": principal.id, "token_sha256": token_sha256, "body": body}
        try:
            self._for_writing().execute(insert(keys).values(row))
        except IntegrityError as error:
            raise Conflict(
                f"key {principal.id} exists already", field="id", value=principal.id
            ) from error
        shown = msgspec.to_builtins(principal)
        self._audit_key(principal, "key.created", token_sha256, body, actor, at_us, key=shown)

    def keys(self) -> list[Principal]:
        """Oldest first: ids rise with time."""
        bodies = self._connection.execute(select(keys.c.body).order_by(keys.c.id)).scalars()
        return [decoded(body, Principal) for body in bodies]

    def revoke_key(self, key_id: str, *, actor: str, at_us: int) -> None:
        """Revoking again keeps the first time. Raises ``NotFound``."""
        connection = self._for_writing()
        query = select(keys.c.body, keys.c.token_sha256).where(keys.c.id == key_id)
        row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"no key {key_id}", field="key_id", value=key_id)
        principal = decoded(row.body, Principal)
        if principal.revoked_us is not None:
            return
        revoked = msgspec.structs.replace(principal, revoked_us=at_us)
        body = encoded(revoked)
        connection.execute(update(keys).where(keys.c.id == key_id).values(body=body))
        self._audit_key(revoked, "key.revoked", row.token_sha256, body, actor, at_us)

    def key_by_hash(self, token_sha256: bytes) -> Principal | None:
        """Expired and revoked ones too.

        The index is searched by a hash, whose prefix tells a guesser nothing about any token; the
        final comparison takes the same time wherever it fails.
        """
        query = select(keys.c.body, keys.c.token_sha256).where(keys.c.token_sha256 == token_sha256)
        row = self._connection.execute(query).one_or_none()
        if row is None or not hmac.compare_digest(row.token_sha256, token_sha256):
            return None
        return decoded(row.body, Principal)

    def _audit_key(
        self,
        principal: Principal,
        action: str,
        token_sha256: bytes,
        body: str,
        actor: str,
        at_us: int,
        **details: Any,
    ) -> None:
        self._record(
            at_us=at_us,
            actor=actor,
            action=action,
            subject=principal.id,
            target="",
            details={**details, "content": key_content(token_sha256, body)},
        )


def key_content(token_sha256: bytes, body: str) -> str:
    """SHA-256, in hex, of a key's row: changes if either the token or its rights are swapped."""
    return hashlib.sha256(token_sha256 + body.encode()).hexdigest()
