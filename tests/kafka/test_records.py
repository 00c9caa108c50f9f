"""Many events in a record: their offsets, their bounds, and what somebody else wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from signals.bus.kafka.records import (
    EVENTS_PER_RECORD,
    HEADERS,
    end_of,
    first_kafka_offset,
    pack,
    size_of,
    unpack,
)
from signals.bus.port import Message
from signals.codec import Malformed, decode

MESSAGES = st.builds(
    Message,
    key=st.text(max_size=20),
    body=st.binary(max_size=300),
    producer=st.text(max_size=20),
    accepted_us=st.integers(0, 2**53),
)


@given(st.lists(MESSAGES, max_size=60), st.integers(200, 2000))
def test_what_is_packed_is_unpacked_in_order_under_rising_offsets(
    messages: list[Message], record_bytes: int
) -> None:
    values = list(pack(messages, record_bytes=record_bytes))
    entries = [e for at, value in enumerate(values) for e in unpack(at, value, HEADERS, 0)]
    assert [(e.key, e.body, e.producer, e.accepted_us) for e in entries] == [
        (m.key, m.body, m.producer, m.accepted_us) for m in messages
    ]
    offsets = [entry.offset for entry in entries]
    assert offsets == sorted(set(offsets))
    assert not messages or (offsets[0] > 0 and offsets[-1] == end_of(len(values)))
    largest = max((size_of(message) for message in messages), default=0)
    assert all(len(value) <= max(record_bytes, largest) for value in values)


@given(st.integers(0, 2**40), st.integers(1, EVENTS_PER_RECORD))
def test_reading_after_any_event_begins_with_the_record_of_the_next(at: int, events: int) -> None:
    offsets = range(end_of(at + 1) - events + 1, end_of(at + 1) + 1)
    assert {first_kafka_offset(after=offset) for offset in offsets[:-1]} <= {at}
    assert first_kafka_offset(after=offsets[-1]) == at + 1


def test_a_record_never_has_more_events_than_its_offsets_allow() -> None:
    many = [Message(key="k", body=b"", producer="p", accepted_us=0)] * 2500
    sizes = [len(unpack(0, value, HEADERS, 0)) for value in pack(many, record_bytes=2**30)]
    assert sizes == [1000, 1000, 500]


def test_what_somebody_else_wrote_is_one_entry_that_nothing_decodes() -> None:
    valid = b'{"id": "1", "producer": "shop", "kind": "business", "target": "chat"}'
    for value, headers in ((valid, []), (b"\xff\x00", HEADERS), (valid, [("trimtab", b"x")])):
        (entry,) = unpack(4, value, headers, 17)
        assert entry.offset == end_of(5)
        assert entry.accepted_us == 17_000
        assert value in entry.body
        try:
            decode(entry.body)
        except Malformed:
            continue
        raise AssertionError("it must become a dead letter")


def test_a_huge_foreign_record_leaves_only_its_beginning() -> None:
    (entry,) = unpack(0, b"x" * 5_000_000, [], 0)
    assert len(entry.body) < 100_000
