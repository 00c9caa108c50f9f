"""Session and external ids as pseudonyms: one for each id, and none is guessed back. Pure.

::

    pseudonym = <kind>~ base64url( mac ‖ check )      34 characters
    mac       = HMAC-SHA256(key, kind ‖ 0 ‖ id), the first 16 bytes
    check     = HMAC-SHA256(key, kind ‖ 1 ‖ mac), the first 8 bytes

Joins work as before: what named the same session names the same pseudonym. ``check`` lets whoever
has the key know one of its own pseudonyms, so an id passes through several doors (the engine's,
ingest's) and is changed once. An id that only looks like one is changed like any other. A keyed
hash, because ids are guessed: of a bare SHA-256, a list of all e-mail addresses would be a
dictionary. Reference: RFC 2104; ENISA, "Pseudonymisation techniques and best practices" (2019).

>>> names = Pseudonyms(b"k" * 32)
>>> names.session("conversation-7")
's~Ezec9TYLL17btj7SIwe_SdXyS6Z2OSJw'
>>> names.session(names.session("conversation-7")) == names.session("conversation-7")
True
>>> names.external("conversation-7") == names.session("conversation-7")
False
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final, TypeVar

from msgspec.structs import replace

from signals.events import Arrived, Finished, Named, NamedRequest, Record
from signals.wire import Posted

_Request = TypeVar("_Request", Arrived, Finished, NamedRequest, Posted)

MIN_KEY_BYTES: Final = 32
MAC_BYTES: Final = 16
CHECK_BYTES: Final = 8
SESSION: Final = "s"
EXTERNAL: Final = "x"

_like = re.compile(r"[sx]~[A-Za-z0-9_-]{32}").fullmatch


class Pseudonyms:
    """Under one key, of ``MIN_KEY_BYTES`` at least; another key gives other pseudonyms."""

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a key of pseudonyms has {MIN_KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def session(self, id_: str) -> str:
        """Of a session id; a pseudonym of ours stays as it is."""
        return self._of(SESSION, id_)

    def external(self, id_: str) -> str:
        """Of an external id; a pseudonym of ours stays as it is."""
        return self._of(EXTERNAL, id_)

    def record(self, record: Record) -> Record:
        """An engine's record, its ids as pseudonyms."""
        if isinstance(record, Arrived):
            return self._request(record)
        if isinstance(record, Finished):
            return self._request(record)
        if isinstance(record, Named):
            return replace(record, requests=tuple(map(self._request, record.requests)))
        return record

    def posted(self, posted: Posted) -> Posted:
        """An event of a business system, its ids as pseudonyms."""
        return self._request(posted)

    def _request(self, request: _Request) -> _Request:
        if request.external_id is None and request.session_id is None:
            return request
        external_id, session_id = request.external_id, request.session_id
        return replace(
            request,
            external_id=external_id and self.external(external_id),
            session_id=session_id and self.session(session_id),
        )

    def _of(self, kind: str, id_: str) -> str:
        if self._ours(kind, id_):
            return id_
        mac = self._mac(kind, b"\0", id_.encode())[:MAC_BYTES]
        return self._written(kind, mac)

    def _ours(self, kind: str, id_: str) -> bool:
        """Whether it is a pseudonym that this key gave."""
        if _like(id_) is None or not id_.startswith(kind):
            return False
        mac = base64.urlsafe_b64decode(id_[2:])[:MAC_BYTES]
        return hmac.compare_digest(self._written(kind, mac), id_)

    def _written(self, kind: str, mac: bytes) -> str:
        check = self._mac(kind, b"\1", mac)[:CHECK_BYTES]
        return f"{kind}~{base64.urlsafe_b64encode(mac + check).decode()}"

    def _mac(self, kind: str, step: bytes, what: bytes) -> bytes:
        return hmac.digest(self._key, kind.encode() + step + what, hashlib.sha256)
