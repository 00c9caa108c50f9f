"""A stretch of the bus, decoded: events to fold, and what can't be."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from signals.bus.port import Entry
from signals.codec import Malformed, decode
from signals.events import Arrived, Finished, Signal

DIGEST_BYTES = 16


class Event(Struct, frozen=True, kw_only=True):
    """A signal and where it stood on the bus. ``digest`` tells one body from another."""

    offset: int
    accepted_us: int
    signal: Signal
    digest: bytes
    body: bytes

    @property
    def identity(self) -> bytes:
        """Stands for (producer, id) in the dedupe tables."""
        return _digest(f"{self.signal.producer}\n{self.signal.id}".encode())


class DeadLetter(Struct, frozen=True, kw_only=True):
    """An acknowledged event that can't be counted, kept with the reason.

    ``reason``: undecodable, conflict, undeclared_metric, outside_attribution, orphan_expired,
    sequence_forgotten or unfoldable.
    """

    offset: int
    target: str
    producer: str
    event_id: str
    reason: str
    detail: str
    accepted_us: int
    body: bytes


class Batch(Struct, frozen=True, kw_only=True):
    """Events in bus order, dead letters, and the offset of the last of them."""

    events: list[Event]
    dead: list[DeadLetter]
    last_offset: int


EngineKey = tuple[str, str, str]
"""(target, replica, incarnation)."""

ExternalId = tuple[str, str]
"""(target, external id)."""


class Needs(Struct, frozen=True, kw_only=True):
    """What must be known before a batch can be folded."""

    identities: set[bytes]
    request_ids: set[str]
    external_ids: set[ExternalId]
    engines: set[EngineKey]
    targets: set[str]


def decode_all(entries: Sequence[Entry]) -> Batch:
    """Decode each entry by itself. ``entries`` must not be empty."""
    events: list[Event] = []
    dead: list[DeadLetter] = []
    for entry in entries:
        try:
            signal = decode(entry.body)
        except Malformed as malformed:
            dead.append(_letter(entry, "undecodable", malformed.detail))
        else:
            events.append(
                Event(
                    offset=entry.offset,
                    accepted_us=entry.accepted_us,
                    signal=signal,
                    digest=_digest(entry.body),
                    body=entry.body,
                )
            )
    return Batch(events=events, dead=dead, last_offset=entries[-1].offset)


def needs(batch: Batch) -> Needs:
    """Everything that folding the batch may look up."""
    found = Needs(
        identities=set(), request_ids=set(), external_ids=set(), engines=set(), targets=set()
    )
    for event in batch.events:
        signal, record = event.signal, event.signal.data
        found.targets.add(signal.target)
        if record is None:
            found.identities.add(event.identity)
            _need_request(found, signal.target, signal.request_id, signal.external_id)
            continue
        stamp = record.stamp
        found.engines.add((stamp.target, stamp.replica, stamp.incarnation))
        if isinstance(record, Arrived | Finished):
            _need_request(found, stamp.target, record.request_id, record.external_id)
    return found


def _need_request(
    found: Needs, target: str, request_id: str | None, external_id: str | None
) -> None:
    if request_id is not None:
        found.request_ids.add(request_id)
    if external_id is not None:
        found.external_ids.add((target, external_id))


def unfoldable(entry: Entry, detail: str) -> Batch:
    """A batch that only buries one entry."""
    letter = _letter(entry, "unfoldable", detail)
    return Batch(events=[], dead=[letter], last_offset=entry.offset)


def _letter(entry: Entry, reason: str, detail: str) -> DeadLetter:
    return DeadLetter(
        offset=entry.offset,
        target=entry.key,
        producer=entry.producer,
        event_id="",
        reason=reason,
        detail=detail,
        accepted_us=entry.accepted_us,
        body=entry.body,
    )


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
