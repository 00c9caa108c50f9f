"""Keys: the SHA-256 of a token and whose it is. The token itself is never here.

A rotated key has a new token under its old id. The old token is a row of its own, ``<id>~1``, for
the time that it still counts; its rights are those of the key, whatever becomes of them.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

import msgspec
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from controller.store.audit_rows import AuditRows
from controller.store.port import Principal
from controller.store.rows import decoded, encoded
from controller.store.tables import keys
from signals.errors import Conflict, NotFound

OLD: Final = "~"
"""In the id of a row that holds a replaced token; no key's id has one."""


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
        query = select(keys.c.body).where(keys.c.id.not_like(f"%{OLD}%")).order_by(keys.c.id)
        return [decoded(body, Principal) for body in self._connection.execute(query).scalars()]

    def rotate_key(
        self, key_id: str, token_sha256: bytes, *, until_us: int, actor: str, at_us: int
    ) -> Principal:
        """Raises ``NotFound``; ``Conflict`` for a dead key or a hash that is taken."""
        principal, old_sha256 = self._key(key_id)
        expires_us = principal.expires_us
        if principal.revoked_us is not None or (expires_us is not None and expires_us <= at_us):
            raise Conflict(f"key {key_id} is dead already", field="key_id", value=key_id)
        rotated = msgspec.structs.replace(principal, rotated_us=at_us)
        body = encoded(rotated)
        change = update(keys).where(keys.c.id == key_id)
        try:
            self._for_writing().execute(change.values(token_sha256=token_sha256, body=body))
        except IntegrityError as error:
            raise Conflict("the new token is in use", field="key_id", value=key_id) from error
        self._audit_key(rotated, "key.rotated", token_sha256, body, actor, at_us)
        self._supersede(principal, old_sha256, until_us, actor=actor, at_us=at_us)
        return rotated

    def revoke_key(self, key_id: str, *, actor: str, at_us: int) -> None:
        """Revoking again keeps the first time. Raises ``NotFound``."""
        connection = self._for_writing()
        principal, token_sha256 = self._key(key_id)
        if principal.revoked_us is not None:
            return
        revoked = msgspec.structs.replace(principal, revoked_us=at_us)
        body = encoded(revoked)
        connection.execute(update(keys).where(keys.c.id == key_id).values(body=body))
        self._audit_key(revoked, "key.revoked", token_sha256, body, actor, at_us)

    def key_by_hash(self, token_sha256: bytes) -> Principal | None:
        """Expired and revoked ones too.

        The index is searched by a hash, whose prefix tells a guesser nothing about any token; the
        final comparison takes the same time wherever it fails.
        """
        columns = (keys.c.id, keys.c.body, keys.c.token_sha256)
        query = select(*columns).where(keys.c.token_sha256 == token_sha256)
        row = self._connection.execute(query).one_or_none()
        if row is None or not hmac.compare_digest(row.token_sha256, token_sha256):
            return None
        found = decoded(row.body, Principal)
        if OLD not in row.id:
            return found
        now, _ = self._key(found.id)
        ends = [us for us in (found.expires_us, now.expires_us) if us is not None]
        return msgspec.structs.replace(now, expires_us=min(ends))

    def _key(self, key_id: str) -> tuple[Principal, bytes]:
        """Raises ``NotFound``."""
        query = select(keys.c.body, keys.c.token_sha256).where(keys.c.id == key_id)
        row = self._connection.execute(query).one_or_none()
        if row is None or OLD in key_id:
            raise NotFound(f"no key {key_id}", field="key_id", value=key_id)
        return decoded(row.body, Principal), row.token_sha256

    def _supersede(
        self, principal: Principal, token_sha256: bytes, until_us: int, *, actor: str, at_us: int
    ) -> None:
        """Keep a token that was replaced, and let older ones live no longer than it."""
        columns = (keys.c.id, keys.c.body, keys.c.token_sha256)
        query = select(*columns).where(keys.c.id.like(f"{principal.id}{OLD}%")).order_by(keys.c.id)
        rows = self._connection.execute(query).all()
        ends_us = min(until_us, principal.expires_us or until_us)
        for row in rows:
            old = decoded(row.body, Principal)
            if old.expires_us is not None and old.expires_us > ends_us:
                shorter = msgspec.structs.replace(old, expires_us=ends_us)
                body = encoded(shorter)
                self._for_writing().execute(
                    update(keys).where(keys.c.id == row.id).values(body=body)
                )
                self._audit_old(row.id, row.token_sha256, body, actor, at_us)
        row_id = f"{principal.id}{OLD}{len(rows) + 1}"
        body = encoded(msgspec.structs.replace(principal, expires_us=ends_us))
        values = {"id": row_id, "token_sha256": token_sha256, "body": body}
        self._for_writing().execute(insert(keys).values(values))
        self._audit_old(row_id, token_sha256, body, actor, at_us)

    def _audit_old(
        self, row_id: str, token_sha256: bytes, body: str, actor: str, at_us: int
    ) -> None:
        self._record(
            at_us=at_us,
            actor=actor,
            action="key.superseded",
            subject=row_id,
            target="",
            details={"content": key_content(token_sha256, body)},
        )

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
