"""Settings of who may call: an OpenID Connect issuer, lock-out, idempotency keys."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import StringConstraints, field_validator, model_validator

from controller.store.port import Role
from signals.configuring import Section, setting
from signals.settings import Name

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Signatures by a private key. HMAC and ``none`` can't be allowed: a public key is no secret."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]
ScopeName = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z][a-z0-9_]{0,62})$")]


class Grant(Section):
    """Whose token has ``value`` in ``claim`` gets this role, within these bounds."""

    claim: Text = setting(
        "groups", unit="", reason="a string or a list of strings; dots go into objects"
    )
    value: Text = setting(..., unit="", reason="must be equal, letter by letter")
    role: Literal["viewer", "operator", "approver", "auditor", "admin"] = setting(
        ..., unit="", reason="producers post with keys, not with tokens"
    )
    targets: tuple[ScopeName, ...] = setting(
        ("*",), unit="", reason="bounds the role; * is all", min_length=1, max_length=64
    )
    intents: tuple[ScopeName, ...] = setting(
        ("*",), unit="", reason="bounds the role within the targets", min_length=1, max_length=64
    )
    team: Name | None = setting(
        None, unit="", reason="the team whose metric definitions the caller may change"
    )

    @property
    def granted(self) -> Role:
        """The role."""
        return self.role


class OidcSettings(Section):
    """Bearer tokens of an OpenID Connect issuer, beside the keys. Off without an issuer."""

    issuer: str | None = setting(
        None, unit="", reason="unset = no tokens; must equal `iss` in each", max_length=1024
    )
    audience: str | None = setting(
        None,
        unit="",
        reason="must be in `aud`, or another service's tokens would do",
        max_length=256,
    )
    jwks_url: str | None = setting(
        None,
        unit="",
        reason="unset = asked of <issuer>/.well-known/openid-configuration",
        max_length=1024,
    )
    algorithms: tuple[Algorithm, ...] = setting(
        ("RS256", "ES256", "EdDSA"),
        unit="",
        reason="what the issuer signs with; others are refused",
        min_length=1,
        max_length=10,
    )
    name_claim: Text = setting(
        "email", unit="", reason="shown as the caller's name; `sub` where it is missing"
    )
    grants: tuple[Grant, ...] = setting(
        (), unit="", reason="the first that fits counts; none fits = 403", max_length=256
    )
    leeway_s: int = setting(30, unit="s", reason="clocks of two machines differ", ge=0, le=300)
    max_token_bytes: int = setting(
        16_384, unit="bytes", reason="a token with many groups has about 4 kB", ge=512, le=65_536
    )
    timeout_ms: int = setting(
        3000, unit="ms", reason="for the issuer's keys to come; then 503", ge=100, le=30_000
    )
    refetch_s: int = setting(
        30, unit="s", reason="keys are not asked for oftener, whatever callers name", ge=1, le=3600
    )
    max_age_s: int = setting(
        3600, unit="s", reason="older keys are asked for anew, and used meanwhile", ge=60, le=86_400
    )
    keep_s: int = setting(
        86_400,
        unit="s",
        reason="an issuer may be down this long; then a key it withdrew must not count",
        ge=60,
        le=604_800,
    )

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_a_safe_url(cls, url: str | None) -> str | None:
        if url is not None:
            parts = urlsplit(url)
            if not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts))):
                raise ValueError(f"{url!r} is neither https nor http on loopback")
        return url

    @model_validator(mode="after")
    def _whole(self) -> OidcSettings:
        if self.issuer is not None and self.audience is None:
            raise ValueError("an issuer without an audience would let in every service's tokens")
        return self


class LockoutSettings(Section):
    """What becomes of an address that presents bad credentials again and again."""

    failures: int = setting(
        10,
        unit="tries",
        reason="a person mistypes a few times; a loop does not stop",
        ge=1,
        le=1000,
    )
    forget_s: int = setting(
        60, unit="s", reason="one try is forgotten per so long / `failures`", ge=1, le=86_400
    )
    first_s: int = setting(
        5, unit="s", reason="of silence after the first time; doubles each time", ge=1, le=3600
    )
    longest_s: int = setting(
        300, unit="s", reason="of silence at most: people behind the same address wait too", ge=1
    )
    addresses: int = setting(
        10_000,
        unit="addresses",
        reason="kept in memory; the longest unseen goes",
        ge=16,
        le=1_000_000,
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        unit="",
        reason="networks whose X-Forwarded-For is believed; unset = none, not even loopback",
        max_length=64,
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        for one in named:
            ip_network(one)
        return named


class IdempotencySettings(Section):
    """How long an ``Idempotency-Key`` brings the first answer again."""

    keep_s: int = setting(
        86_400,
        unit="s",
        reason="a script that was cut off is run again the same day",
        ge=60,
        le=604_800,
    )
    max_answer_bytes: int = setting(
        65_536, unit="bytes", reason="longer answers are not kept", ge=1024, le=1_048_576
    )
    stop_wait_ms: int = setting(
        100, unit="ms", reason="kill and hold go on without the store after this", ge=1, le=1000
    )
    prune_s: int = setting(
        300, unit="s", reason="what is too old is deleted this often", ge=1, le=86_400
    )


def _is_loopback(parts: object) -> bool:
    host = getattr(parts, "hostname", None) or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
