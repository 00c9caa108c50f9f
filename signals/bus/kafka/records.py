"""Many events in one Kafka record: what it costs to send and fetch a record is shared by them.

::

    record k (Kafka's offset)   n events, msgpack [[key, body, producer, accepted_us], …]
    our offset of event i       (k + 1) · 1000 − (n − 1 − i)        i = 0 … n − 1

So the last event of a record always has the offset (k + 1) · 1000, the end of a partition is known
without reading it, and offsets rise. 1000 events a record at most; it can never be changed.

>>> first_kafka_offset(after=0), first_kafka_offset(after=998), first_kafka_offset(after=1000)
(0, 0, 1)

One record an event, as other clients expect it, costs 17 to 30 µs of this machine per event in
kafka-python; the record is a list instead, and the topic belongs to Trimtab alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from signals.bus.port import Entry, Message

EVENTS_PER_RECORD = 1000
HEADERS: list[tuple[str, bytes]] = [("trimtab", b"events/1")]
"""Marks the format; another one is told from it."""
FOREIGN = b"not a record of Trimtab: "
_FOREIGN_BYTES = 65_536
_ENVELOPE_BYTES = 32
"""Upper bound of what msgpack adds to the fields of an event."""


class _Packed(Struct, frozen=True, array_like=True):
    key: str
    body: bytes
    producer: str
    accepted_us: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Packed])


def size_of(message: Message) -> int:
    """At most so many bytes in a record, before compression."""
    text = 4 * (len(message.key) + len(message.producer))
    return len(message.body) + text + _ENVELOPE_BYTES


def pack(messages: Iterable[Message], *, record_bytes: int) -> Iterator[bytes]:
    """Messages of one partition, in order, as the values of records.

    Each is at most ``record_bytes`` long, but an event that is longer goes alone.
    """
    some: list[_Packed] = []
    used = 0
    for message in messages:
        size = size_of(message)
        if some and (used + size > record_bytes or len(some) == EVENTS_PER_RECORD):
            yield _encoder.encode(some)
            some, used = [], 0
        used += size
        some.append(_Packed(message.key, message.body, message.producer, message.accepted_us))
    if some:
        yield _encoder.encode(some)


def unpack(
    kafka_offset: int, value: bytes, headers: Sequence[tuple[str, bytes]], timestamp_ms: int
) -> list[Entry]:
    """The entries of one record, in order.

    What somebody else wrote on the topic becomes one entry that no codec decodes: the stage sets it
    aside with its beginning as evidence, and goes on.
    """
    last = end_of(kafka_offset + 1)
    try:
        if list(headers) != HEADERS:
            raise msgspec.DecodeError("another format")
        events = _decoder.decode(value)
    except msgspec.DecodeError:
        body = FOREIGN + (value or b"")[:_FOREIGN_BYTES]
        return [Entry(offset=last, key="", body=body, producer="", accepted_us=timestamp_ms * 1000)]
    first = last - len(events) + 1
    return [
        Entry(
            offset=offset,
            key=event.key,
            body=event.body,
            producer=event.producer,
            accepted_us=event.accepted_us,
        )
        for offset, event in enumerate(events, first)
    ]


def first_kafka_offset(*, after: int) -> int:
    """The record in which the entries above ``after`` begin."""
    return after // EVENTS_PER_RECORD


def end_of(kafka_end: int) -> int:
    """The offset of the last entry before Kafka's offset ``kafka_end``; 0 at the beginning."""
    return kafka_end * EVENTS_PER_RECORD
