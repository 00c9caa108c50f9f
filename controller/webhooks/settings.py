"""Settings of the webhooks: who is told of what, and how hard is tried."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from signals.configuring import Section, setting

HookName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Short enough that ``<hook>:<entry>`` fits an id's 64 characters."""

Event = Annotated[str, StringConstraints(pattern=r"^(\*|[a-z_]+(\.[a-z_]+)*(\.\*)?)$")]
"""An action of the audit, a family of them (``policy.*``), or ``*``."""


class HookSettings(Section):
    """One receiver."""

    url: str = setting(..., unit="", reason="where events are posted", max_length=2000)
    secret_file: str | None = setting(
        None,
        unit="",
        reason="one `whsec_…` a line: the newest signs first, two at most while one is rotated"
        " out; unset = keys/webhook-NAME.key in the state directory, made at the first start",
    )
    events: tuple[Event, ...] = setting(
        ("policy.*", "override.*", "control.*"),
        unit="",
        reason="actions of the audit: one, a family as policy.*, or * for all",
        min_length=1,
        max_length=64,
    )
    targets: tuple[str, ...] = setting(
        ("*",),
        unit="",
        reason="only entries about these; what is about no target goes where * is",
        min_length=1,
        max_length=64,
    )
    allow_http: bool = setting(
        False, unit="", reason="plain HTTP to another machine shows every event on the way"
    )

    @model_validator(mode="after")
    def _url_is_safe(self) -> HookSettings:
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"url is none: {error}") from error
        if parts.scheme not in ("http", "https") or not host or port == 0:
            raise ValueError("url must be https://HOST/… (or http:// on this machine)")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must not carry a user or a password; the signature is enough")
        if parts.scheme == "http" and not self.allow_http and not is_loopback(host):
            raise ValueError("url is plain HTTP to another machine; use https, or allow_http: true")
        return self


class WebhookSettings(Section):
    """Webhooks: the receivers, and what bounds the sending."""

    hooks: dict[HookName, HookSettings] = Field(
        default_factory=dict,
        description="receivers by name; the name is part of every delivery's id",
        max_length=16,
    )
    poll_ms: int = setting(
        500, unit="ms", reason="the audit is looked at this often", ge=10, le=60_000
    )
    batch: int = setting(
        200, unit="entries", reason="read of the audit in one step, of each hook", ge=1, le=1000
    )
    max_waiting: int = setting(
        5000,
        unit="deliveries",
        reason="of one hook; beyond it the audit is read no further until some are done",
        ge=1,
        le=100_000,
    )
    concurrency: int = setting(
        1,
        unit="posts",
        reason="at once to one hook; with one, order is kept as long as nothing fails",
        ge=1,
        le=16,
    )
    timeout_s: float = setting(
        10.0, unit="s", reason="one attempt, from connecting to the answer's head", gt=0, le=60
    )
    attempts: int = setting(
        14, unit="attempts", reason="about two days with the pauses below", ge=1, le=100
    )
    max_age_s: int = setting(
        259_200, unit="s", reason="after three days nobody waits for it", ge=1, le=2_592_000
    )
    backoff_s: float = setting(
        5.0, unit="s", reason="before the second attempt; doubles each time", gt=0, le=3600
    )
    backoff_max_s: float = setting(
        28_800.0, unit="s", reason="the longest pause, also when asked for more", gt=0, le=86_400
    )
    body_bytes: int = setting(
        65_536,
        unit="bytes",
        reason="an event beyond it goes without its details",
        ge=1024,
        le=1_048_576,
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("example.org")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown_url(url: str) -> str:
    """The URL as people may see it: a path can be a secret.

    >>> shown_url("https://hooks.example.org:8443/T0/B1/abc?key=1")
    'https://hooks.example.org:8443/…'
    """
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    host = parts.hostname or ""
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{rest}"
