"""An issuer's public keys: fetched, kept, fetched anew when a token names one that is unknown.

==================================  ============================================================
a key that is known                 at once, without the network; also while the issuer is down
older than ``max_age_s``            known ones go on; asked for anew, at most every ``refetch_s``
older than ``keep_s``               none is known any more: the issuer may have withdrawn them
an unknown key id                   asked for anew, at most every ``refetch_s``: then the caller
                                    is refused, or told to come back where the issuer is silent
==================================  ============================================================
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from controller.identity.settings import OidcSettings
from signals.errors import Denied, Unavailable

DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_BYTES: Final = 262_144
MAX_KEYS: Final = 64
MIN_RSA_BITS: Final = 2048
PUBLIC_KINDS: Final = frozenset({"RSA", "EC", "OKP"})

FAULTS: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    ValueError,
    KeyError,
    TypeError,
    RecursionError,
)
"""What an issuer that is down, or answers nonsense, leads to."""

log = logging.getLogger(__name__)


class IssuerKeys:
    """The signing keys of one issuer, by key id. Safe in any thread; one of them fetches."""

    def __init__(
        self, settings: OidcSettings, *, mono: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._mono = mono
        self._http = httpx.Client(timeout=settings.timeout_ms / 1000, trust_env=False)
        self._lock = threading.Lock()
        self._keys: dict[str | None, PyJWK] = {}
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        self._answered = False

    def key(self, kid: str | None) -> PyJWK:
        """The key with that id; without an id the only one.

        Raises ``Denied`` (401) for an unknown one, ``Unavailable`` while the issuer can't be asked.
        """
        if self._age_s() > self._settings.max_age_s:
            self._refetch()
        found = self._known(kid)
        if found is None:
            self._refetch()
            found = self._known(kid)
        if found is not None:
            return found
        if not self._answered:
            raise Unavailable(
                "the issuer of the token does not answer, and its key is not known here",
                retry_after_s=self._settings.refetch_s,
            )
        raise Denied("the token is signed by an unknown key", authenticated=False)

    def close(self) -> None:
        """Idempotent."""
        self._http.close()

    def _known(self, kid: str | None) -> PyJWK | None:
        keys = self._keys if self._age_s() <= self._settings.keep_s else {}
        if kid is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(kid)

    def _age_s(self) -> float:
        return 0.0 if self._fetched_s is None else self._mono() - self._fetched_s

    def _refetch(self) -> None:
        """Ask, unless that was tried of late. Who meets another one asking waits only at first."""
        if not self._lock.acquire(blocking=not self._keys):
            return
        try:
            now_s = self._mono()
            if self._tried_s is not None and now_s - self._tried_s < self._settings.refetch_s:
                return
            self._tried_s, self._answered = now_s, False
            self._keys = _usable(self._fetched())
            self._fetched_s, self._answered = now_s, True
        except FAULTS as error:
            log.warning("the issuer's keys can't be had: %s: %s", type(error).__name__, error)
        finally:
            self._lock.release()

    def _fetched(self) -> Iterable[Any]:
        """The key set's members. Raises ``httpx.HTTPError`` and whatever bad JSON leads to."""
        settings = self._settings
        url = settings.jwks_url
        if url is None:
            issuer = settings.issuer or ""
            found = self._json(issuer.rstrip("/") + DISCOVERY)
            if found["issuer"] != issuer:
                raise ValueError("the discovery document is another issuer's")
            url = OidcSettings(jwks_url=found["jwks_uri"]).jwks_url or ""
        keys = self._json(url)["keys"]
        if not isinstance(keys, list) or len(keys) > MAX_KEYS:
            raise ValueError(f"not a list of at most {MAX_KEYS} keys")
        return keys

    def _json(self, url: str) -> Any:
        with self._http.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                raise ValueError(f"{url} answered {answer.status_code}")
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_BYTES:
                    raise ValueError(f"{url} answered more than {MAX_BYTES} bytes")
        return httpx.Response(200, content=bytes(body)).json()


def _usable(members: Iterable[Any]) -> dict[str | None, PyJWK]:
    """Public signing keys by id; what can't be one is left out."""
    found: dict[str | None, PyJWK] = {}
    for member in members:
        if not isinstance(member, dict) or not _is_public(member):
            continue
        if member.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK(member)
        except (PyJWTError, ValueError, TypeError, RuntimeError) as error:
            log.warning("a key of the issuer can't be used: %s: %s", type(error).__name__, error)
            continue
        if isinstance(key.key, RSAPublicKey) and key.key.key_size < MIN_RSA_BITS:
            log.warning("an RSA key of the issuer has only %d bits", key.key.key_size)
            continue
        found[member.get("kid")] = key
    return found


def _is_public(member: dict[str, Any]) -> bool:
    """A key of a kind that we know, without its private half, whose id can be one."""
    kind, kid = member.get("kty"), member.get("kid")
    named = kid is None or isinstance(kid, str)
    return named and isinstance(kind, str) and kind in PUBLIC_KINDS and "d" not in member
