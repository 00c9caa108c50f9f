"""One event as a client posts it, and how a JSON document that does not fit is refused."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from signals.errors import Rejected
from signals.events import Kind, Record

KINDS: Final[tuple[Kind, ...]] = ("basic", "semantic", "business")


class Posted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event of ``POST /v1/signals``, typed but not yet judged.

    ``time`` is RFC 3339 with an offset. A basic event may leave it out: its record has its own.
    """

    id: str
    kind: Kind
    name: str
    time: datetime | None = None
    value: bool | int | float | None = None
    target: str | None = None
    request_id: str | None = None
    external_id: str | None = None
    session_id: str | None = None
    data: Record | None = None


T = TypeVar("T")
_posted: msgspec.json.Decoder[Posted] = msgspec.json.Decoder(Posted)
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"(?:required|unknown) field `(?P<name>[^`]*)`")


def read_posted(raw: bytes | msgspec.Raw) -> Posted:
    """One event. Raises ``Rejected`` naming the field."""
    return read(_posted, raw)


def read(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T:
    """Decode, turning what does not fit into ``Rejected`` with the field's path."""
    try:
        return decoder.decode(raw)
    except RecursionError as error:
        raise Rejected("the document is nested too deeply") from error
    except msgspec.MsgspecError as error:
        message = str(error)
        raise Rejected(_PATH.sub("", message), field=_field(message)) from error


def _field(message: str) -> str | None:
    path = _PATH.search(message)
    named = _NAMED.search(message)
    parts = [found for found in (path and path["path"], named and named["name"]) if found]
    return ".".join(parts) or None
