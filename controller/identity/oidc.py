"""OpenID Connect bearer tokens: checked here, with the issuer's public keys; nothing is asked back.

A token counts when it is signed by a key of the issuer with an allowed algorithm, says this issuer
and this audience, has not expired, is not from the future, and names a subject. What its bearer may
do are ``oidc.grants``, data: the first grant whose claim fits gives role, targets and intents. The
caller is ``oidc:<sub>``, in the audit too; the token itself is kept nowhere.

Why the key's own algorithm is not asked: ``alg`` in the token is chosen by whoever made it. It must
be in the allowed list, which can hold no HMAC and not ``none``, and fit the kind of the key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, Protocol

import jwt
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from controller.identity.jwks import IssuerKeys
from controller.identity.settings import Grant, OidcSettings
from controller.store.port import Principal
from signals.errors import Denied
from signals.events import MICROS

PREFIX: Final = "oidc:"
MAX_SUBJECT: Final = 200
MAX_NAME: Final = 128
KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class Keys(Protocol):
    """Where an issuer's public keys come from."""

    def key(self, kid: str | None) -> PyJWK:
        """Raises ``Denied`` (401), ``Unavailable``."""


class TokenReader:
    """From a token to its principal."""

    def __init__(self, settings: OidcSettings, keys: Keys, *, now_us: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._now_us = now_us

    def read(self, token: str) -> Principal:
        """Raises ``Denied``: 401 for a bad token, 403 without a grant; ``Unavailable``."""
        if len(token) > self._settings.max_token_bytes:
            raise _bad("the token is too long")
        claims = self._claims(token)
        expires_us = check_times(claims, now_us=self._now_us(), leeway_s=self._settings.leeway_s)
        return principal_of(claims, self._settings, expires_us=expires_us)

    def _claims(self, token: str) -> Mapping[str, Any]:
        """What it says, once its signature, issuer and audience are known to be right."""
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in settings.algorithms:
                raise _bad(f"the token is not signed with {' or '.join(settings.algorithms)}")
            if "crit" in header or not (kid is None or isinstance(kid, str)):
                raise _bad("the token's header is not understood")
            key = self._keys.key(kid)
            if key.key_type != KINDS[algorithm[:2]]:
                raise _bad("the token's algorithm does not fit its key")
            found: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "iat", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except PyJWTError as error:
            raise _bad(f"the token does not count: {_why(error)}") from error
        except (ValueError, TypeError, UnicodeError, RecursionError) as error:
            raise _bad("the token can't be read") from error
        return found


@contextmanager
def reading_tokens(
    settings: OidcSettings, *, now_us: Callable[[], int]
) -> Iterator[TokenReader | None]:
    """A reader with the issuer's keys, asked for at the first token; None without an issuer."""
    if settings.issuer is None:
        yield None
        return
    with closing(IssuerKeys(settings)) as keys:
        yield TokenReader(settings, keys, now_us=now_us)


def check_times(claims: Mapping[str, Any], *, now_us: int, leeway_s: int) -> int:
    """When the token expires, in µs. Raises ``Denied`` unless it is in force now."""
    now_s = now_us / MICROS
    expires_s = _moment(claims, "exp")
    if expires_s <= now_s - leeway_s:
        raise _bad("the token has expired")
    for name in ("nbf", "iat"):
        if name in claims and _moment(claims, name) > now_s + leeway_s:
            raise _bad(f"the token is from the future ({name})")
    return int(expires_s * MICROS)


def principal_of(
    claims: Mapping[str, Any], settings: OidcSettings, *, expires_us: int
) -> Principal:
    """The caller, with the first grant that fits. Raises ``Denied``: 401, or 403 without one."""
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise _bad(f"the token's subject is not a text of 1..{MAX_SUBJECT} characters")
    if not subject.isprintable():
        raise _bad("the token's subject is not printable")
    name = claims.get(settings.name_claim)
    shown = name if isinstance(name, str) and name.isprintable() and name.strip() else subject
    grant = next((one for one in settings.grants if fits(one, claims)), None)
    if grant is None:
        raise Denied(f"no grant in oidc.grants fits the token of {shown[:MAX_NAME]}")
    return Principal(
        id=PREFIX + subject,
        name=shown[:MAX_NAME],
        role=grant.granted,
        targets=grant.targets,
        intents=grant.intents,
        team=grant.team or "",
        expires_us=expires_us,
    )


def fits(grant: Grant, claims: Mapping[str, Any]) -> bool:
    """Whether the claim is the grant's value, or a list that has it.

    >>> fits(Grant(claim="a.b", value="ops", role="operator"), {"a": {"b": ["ops"]}})
    True
    """
    found: Any = claims
    if grant.claim in claims:
        found = claims[grant.claim]
    else:
        for part in grant.claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return found == grant.value or (isinstance(found, list) and grant.value in found)


def _moment(claims: Mapping[str, Any], name: str) -> float:
    """Seconds since the epoch. Raises ``Denied``."""
    found = claims[name]
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise _bad(f"the token's {name} is no number")
    if not (math.isfinite(found) and 0 <= found < 2**40):
        raise _bad(f"the token's {name} is no time")
    return float(found)


def _why(error: PyJWTError) -> str:
    """The kind of error alone: its text may quote what the caller sent."""
    return type(error).__name__.removesuffix("Error")


def _bad(detail: str) -> Denied:
    return Denied(detail, authenticated=False)
