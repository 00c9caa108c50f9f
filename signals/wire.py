"""One event as a client posts it, and how a JSON document that does not fit is refused."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from signals.errors import Rejected
from signals.events import Command, Kind, Record

KINDS: Final[tuple[Kind, ...]] = ("basic", "semantic", "business")
"""What feedback is of. The fourth kind, ``command``, is the control plane's own."""


class Posted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An event of ``POST /v1/signals``, typed but not yet judged.

    ``time`` is RFC 3339 with an offset. A basic event may leave it out: its record has its own.
    ``target`` may be left out where it follows from the rest; ``model`` belongs to scores.
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
    model: str | None = None
    data: Record | None = None
    command: Command | None = None


T = TypeVar("T")
_posted: msgspec.json.Decoder[Posted] = msgspec.json.Decoder(Posted)
_many: msgspec.json.Decoder[list[Posted]] = msgspec.json.Decoder(list[Posted])
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"(?:required|unknown) field `(?P<name>[^`]*)`")


def read_posted(raw: bytes | msgspec.Raw) -> Posted:
    """One event. Raises ``Rejected`` naming the field."""
    return read(_posted, raw)


def read_lines(body: bytes, lines: int) -> list[Posted] | None:
    """All events of an NDJSON body at once; None unless they are one to a line, and all fit."""
    try:
        events = _posted.decode_lines(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return events if len(events) == lines else None


def read_array(body: bytes) -> list[Posted] | None:
    """All events of a JSON array at once; None unless all fit."""
    try:
        return _many.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


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
