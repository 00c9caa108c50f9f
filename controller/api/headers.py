"""Reading and writing headers where the framework does not: in what stands around the app."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Message, Scope

BEARER = "bearer "


def values(scope: Scope, name: str) -> list[str]:
    """Every value of a header, as they came. Names are lower-case; bytes are Latin-1."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def bearer_of(scope: Scope) -> str | None:
    """The bearer token that a call presents; None where it presents none."""
    for value in values(scope, "authorization"):
        if value[: len(BEARER)].lower() == BEARER:
            return value[len(BEARER) :].strip()
    return None


def value_of(message: Message, name: str) -> str | None:
    """A header of a response that begins."""
    found = [value for key, value in message["headers"] if key.lower() == name.encode()]
    return found[-1].decode("latin-1") if found else None


def with_headers(message: Message, extra: Iterable[tuple[str, str]]) -> Message:
    """A response's beginning with more headers."""
    more = [(name.encode(), value.encode("latin-1")) for name, value in extra]
    return {**message, "headers": [*message["headers"], *more]}
