"""One post sorted into what is accepted and what is refused, event by event. Pure."""

from __future__ import annotations

from msgspec import Struct

from signals.cloudevents import read_cloud_event
from signals.codec import CLOUD_EVENT, CLOUD_EVENT_BATCH, encode, expand, media_type, split
from signals.errors import Denied, Rejected
from signals.events import Signal
from signals.rules import Rules
from signals.validation import check
from signals.wire import read_posted


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one event of a post was not taken. ``index`` counts from 0 in the post."""

    index: int
    reason: str
    id: str | None = None
    field: str | None = None
    allowed: object = None


class Taken(Struct, frozen=True, kw_only=True):
    """An accepted event and its bytes for the bus."""

    signal: Signal
    body: bytes


class Sorted(Struct, frozen=True, kw_only=True):
    """The outcome of one post. ``denied``: how many were refused because of the key."""

    taken: list[Taken]
    refused: list[Refused]
    denied: int


def sort_out(body: bytes, *, content_type: str, encoding: str, rules: Rules) -> Sorted:
    """Judge each event by itself. Raises ``Rejected`` only for the body as a whole."""
    media = media_type(content_type)
    settings = rules.settings
    plain = expand(body, encoding, limit=settings.max_body_bytes)
    read = read_cloud_event if media in (CLOUD_EVENT, CLOUD_EVENT_BATCH) else read_posted
    taken: list[Taken] = []
    refused: list[Refused] = []
    denied = 0
    for index, raw in enumerate(split(plain, media, max_events=settings.max_events)):
        id_ = None
        try:
            posted = read(raw)
            id_ = posted.id
            signal = check(posted, rules)
        except Rejected as rejected:
            denied += isinstance(rejected, Denied)
            refused.append(_refused(index, id_, rejected))
        else:
            taken.append(Taken(signal=signal, body=encode(signal)))
    return Sorted(taken=taken, refused=refused, denied=denied)


def _refused(index: int, id_: str | None, rejected: Rejected) -> Refused:
    return Refused(
        index=index,
        reason=rejected.detail,
        id=id_,
        field=rejected.field,
        allowed=rejected.allowed,
    )
