"""One post sorted into what is accepted and what is refused, event by event. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from signals.bus.port import Message
from signals.cloudevents import read_cloud_event
from signals.codec import CLOUD_EVENT, CLOUD_EVENT_BATCH, encode, expand, media_type, read_body
from signals.errors import Denied, Rejected
from signals.rules import MAX_ID, Rules
from signals.validation import Judge
from signals.wire import Posted, read_posted

SLICE: Final = 500
"""Events judged between two pauses: a few milliseconds at most."""

MAX_REASON: Final = 500
"""Characters; an unknown field's name is in it, however long that is."""


class Refused(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one event of a post was not taken. ``index`` counts from 0 in the post."""

    index: int
    reason: str
    id: str | None = None
    field: str | None = None
    allowed: object = None


class Sorted:
    """The outcome of one post of ``read_bytes``: messages for the bus, and what was refused."""

    def __init__(self, read_bytes: int) -> None:
        self.read_bytes = read_bytes
        self.messages: list[Message] = []
        self.ids: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.refused: list[Refused] = []
        self.denied = 0
        """How many were refused because of the key."""


def sort_out(body: bytes, *, content_type: str, encoding: str, rules: Rules) -> Sorted:
    """Judge each event by itself. Raises ``Rejected`` only for the body as a whole."""
    media = media_type(content_type)
    plain = expand(body, encoding, limit=rules.settings.max_body_bytes)
    return sorted_at_once(plain, media, rules)


def sorted_at_once(plain: bytes, media: str, rules: Rules) -> Sorted:
    """``sort_out`` of an expanded body."""
    sorting = Sorting(plain, media, rules)
    for _ in sorting.pauses():
        pass
    return sorting.outcome


class Sorting:
    """``sort_out`` of an expanded body, a slice at a time."""

    def __init__(self, plain: bytes, media: str, rules: Rules) -> None:
        cloud = media in (CLOUD_EVENT, CLOUD_EVENT_BATCH)
        self._events = read_body(plain, media, max_events=rules.settings.max_events)
        self._read = read_cloud_event if cloud else read_posted
        self._judge = Judge(rules)
        self._rules = rules
        self.outcome = Sorted(len(plain))

    def pauses(self) -> Iterator[None]:
        """Judge all events, with a pause between two slices."""
        for first in range(0, len(self._events), SLICE):
            if first:
                yield
            self._sort(self._events[first : first + SLICE], first)

    def _sort(self, events: Sequence[Posted | bytes | msgspec.Raw], first: int) -> None:
        outcome, read, check = self.outcome, self._read, self._judge.check
        producer, now_us = self._rules.producer.name, self._rules.now_us
        messages, ids, kinds = outcome.messages, outcome.ids, []
        most = self._rules.max_event_bytes
        for index, event in enumerate(events, first):
            id_ = None
            try:
                posted = event if isinstance(event, Posted) else read(event)
                id_ = posted.id
                signal = check(posted)
                body = encode(signal)
                if len(body) > most:
                    raise _too_large(len(body), most)
            except Rejected as rejected:
                outcome.denied += isinstance(rejected, Denied)
                outcome.refused.append(_refused(index, id_, rejected))
            else:
                ids.append(signal.id)
                kinds.append(signal.kind)
                messages.append(
                    Message(
                        key=signal.target,
                        body=body,
                        producer=producer,
                        accepted_us=now_us,
                    )
                )
        outcome.kinds.update(kinds)


def _too_large(length: int, most: int) -> Rejected:
    said = f"an event of {length} bytes is larger than the log takes"
    return Rejected(said, value=length, allowed=f"{most} bytes at most")


def _refused(index: int, id_: str | None, rejected: Rejected) -> Refused:
    return Refused(
        index=index,
        reason=rejected.detail[:MAX_REASON],
        id=id_ and id_[:MAX_ID],
        field=rejected.field and rejected.field[:MAX_ID],
        allowed=rejected.allowed,
    )
