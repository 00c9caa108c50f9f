"""Who may post what. A bearer token is looked up by its SHA-256 and never stored.

>>> keys = StaticKeys({sha256_hex("s3cret"): Producer(name="shop", kinds=frozenset({"business"}))})
>>> keys.lookup("s3cret").name
'shop'
>>> keys.lookup("guess") is None
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

ANY = frozenset({"*"})


class Producer(Struct, frozen=True, kw_only=True):
    """What one key may post. ``"*"`` in a set allows everything of that sort.

    ``name`` is half of the dedupe key, so it must not change when the key is rotated.
    ``rate_per_s`` bounds its accepted events per second (None: only the machine does).
    """

    name: str
    kinds: frozenset[str]
    targets: frozenset[str] = ANY
    names: frozenset[str] = ANY
    rate_per_s: float | None = None

    def may_not(self, *, kind: str, target: str, name: str) -> str | None:
        """The first field that this producer may not post so; None when all is allowed."""
        for field, value, allowed in (
            ("kind", kind, self.kinds),
            ("target", target, self.targets),
            ("name", name, self.names),
        ):
            if value not in allowed and "*" not in allowed:
                return field
        return None


class KeyReader(Protocol):
    """Where keys are looked up. Cheap: called for every post, on the event loop."""

    def lookup(self, token: str) -> Producer | None:
        """The producer behind a bearer token; None when there is none. Raises ``Unavailable``."""


class StaticKeys:
    """Keys fixed at start: hexadecimal SHA-256 of the token -> producer."""

    def __init__(self, producers: Mapping[str, Producer]) -> None:
        self._producers = dict(producers)

    def lookup(self, token: str) -> Producer | None:
        """See ``KeyReader.lookup``."""
        return self._producers.get(sha256_hex(token))


def sha256_hex(token: str) -> str:
    """How a token is kept."""
    return hashlib.sha256(token.encode()).hexdigest()
