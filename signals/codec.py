"""Bodies of ``POST /v1/signals``, and the one encoding of events on the bus.

==================================  ==============================================
``application/json``                one event, or an array
``application/x-ndjson``            one event a line
``application/cloudevents+json``    one CloudEvent 1.0 (structured mode)
``application/cloudevents-batch+json``  an array of CloudEvents
==================================  ==============================================

Each may be ``Content-Encoding: gzip``. This module takes a body apart into single events; what an
event must be like is ``signals.validation``'s.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from signals.errors import Rejected
from signals.events import Signal
from signals.wire import Posted, read_array, read_lines

JSON: Final = "application/json"
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
CLOUD_EVENT: Final = "application/cloudevents+json"
CLOUD_EVENT_BATCH: Final = "application/cloudevents-batch+json"
CONTENT_TYPES: Final = (JSON, *NDJSON, CLOUD_EVENT, CLOUD_EVENT_BATCH)
ENCODINGS: Final = ("", "identity", "gzip")

T = TypeVar("T")
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_items = msgspec.json.Decoder(list[msgspec.Raw])
_signal = msgspec.json.Decoder(Signal)

encode: Callable[[Signal], bytes] = msgspec.json.Encoder().encode
"""A signal as the bus carries it. The same signal always gives the same bytes."""


class Malformed(Rejected):
    """Not the JSON it says it is."""

    status = 400


class TooLarge(Rejected):
    """More bytes or events than one post may carry."""

    status = 413


class UnsupportedMedia(Rejected):
    """A content type or encoding that is not read here."""

    status = 415


def media_type(content_type: str) -> str:
    """The type without its parameters, checked. Raises ``UnsupportedMedia``."""
    bare = content_type.partition(";")[0].strip().lower()
    if bare not in CONTENT_TYPES:
        raise UnsupportedMedia(
            f"content type {bare or 'missing'!r} is not read here",
            field="Content-Type",
            value=bare,
            allowed=list(CONTENT_TYPES),
        )
    return bare


def expand(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Undo the content encoding, never making more than ``limit`` bytes.

    Raises ``UnsupportedMedia``, ``Malformed`` or ``TooLarge``.
    """
    if not encoding:
        return body
    name = encoding.strip().lower()
    if name not in ENCODINGS:
        raise UnsupportedMedia(
            f"content encoding {name!r} is not read here",
            field="Content-Encoding",
            value=name,
            allowed=list(ENCODINGS[1:]),
        )
    if name != "gzip":
        return body
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise Malformed(f"the body is not gzip: {error}", field="Content-Encoding") from error
    if len(plain) > limit:
        raise TooLarge(f"the body expands beyond {limit} bytes", allowed=limit)
    if not inflater.eof or inflater.unused_data:
        raise Malformed("the gzip body is truncated or has a tail", field="Content-Encoding")
    return plain


def read_body(
    body: bytes, media: str, *, max_events: int
) -> Sequence[Posted | bytes | msgspec.Raw]:
    """The events of a body, read where all of it can be read at once, else each still JSON.

    Either way each is then judged by itself. Raises ``Malformed`` or ``TooLarge``.
    """
    events: Sequence[Posted | bytes | msgspec.Raw] | None = None
    if media in NDJSON:
        lines = body.count(b"\n") + (not body.endswith(b"\n"))
        if lines <= max_events:
            events = read_lines(body, lines)
    elif media == JSON and body.lstrip()[:1] == b"[":
        events = read_array(body)
    return _counted(events or split(body, media, max_events=max_events), max_events)


def split(body: bytes, media: str, *, max_events: int) -> list[bytes | msgspec.Raw]:
    """The single events of a body, each still JSON. Raises ``Malformed`` or ``TooLarge``.

    A bad line of NDJSON stays in the list, to be refused by itself. Blank lines are passed over,
    up to one for each event that a post may carry.
    """
    if media in NDJSON:
        ends = max(body.count(b"\n"), body.count(b"\r"))
        if ends > 2 * max_events:
            raise TooLarge(f"{ends} lines in one post", value=ends, allowed=max_events)
        return [line for line in body.splitlines() if line.strip()]
    if media == CLOUD_EVENT_BATCH or (media == JSON and body.lstrip()[:1] == b"["):
        return list(_array(body))
    return [body] if body.strip() else []


def _counted(events: Sequence[T], max_events: int) -> Sequence[T]:
    if not events:
        raise Malformed("the body holds no event")
    if len(events) > max_events:
        raise TooLarge(f"{len(events)} events in one post", value=len(events), allowed=max_events)
    return events


def decode(body: bytes) -> Signal:
    """A signal from the bus. Raises ``Malformed``."""
    try:
        return _signal.decode(body)
    except msgspec.MsgspecError as error:
        raise Malformed(f"not a signal: {error}") from error


def _array(body: bytes) -> list[msgspec.Raw]:
    try:
        return _items.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"the body is not a JSON array: {error}") from error
