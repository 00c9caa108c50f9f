"""Bodies of posts: what is taken apart, what is refused, and with which words."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from signals.codec import (
    CLOUD_EVENT,
    CLOUD_EVENT_BATCH,
    JSON,
    NDJSON,
    Malformed,
    TooLarge,
    UnsupportedMedia,
    decode,
    encode,
    expand,
    media_type,
    read_body,
)
from signals.definitions import StaticDefinitions
from signals.events import MICROS, Finished, Record, Signal
from signals.ingest.keys import Producer
from signals.ingest.sorting import Refused, Sorted, sort_out
from signals.records import record_id, record_name
from signals.rules import Rules
from signals.settings import IngestSettings
from tests.signals import making
from tests.signals.making import INTENTS, METRICS, T0_US, request_id

NOW = datetime.fromtimestamp(T0_US / MICROS, UTC)
ALL = frozenset({"basic", "semantic", "business"})
ID = request_id(1)


def rules(**settings: int) -> Rules:
    return Rules(
        producer=Producer(name="shop", kinds=ALL),
        definitions=StaticDefinitions(METRICS).current(),
        targets=INTENTS.keys(),
        settings=IngestSettings.model_validate(settings),
        now_us=T0_US,
    )


def event(**changes: Any) -> dict[str, Any]:
    made = {
        "id": "e1",
        "kind": "business",
        "time": NOW.isoformat(),
        "name": "copied",
        "value": True,
        "request_id": ID,
    } | changes
    return {name: value for name, value in made.items() if value is not None}


def posted(record: Record, **changes: Any) -> dict[str, Any]:
    made = {
        "id": record_id(record),
        "kind": "basic",
        "name": record_name(record),
        "target": record.stamp.target,
        "time": NOW.isoformat(),
        "data": msgspec.to_builtins(record),
    }
    return made | changes


def sort(body: Any, content_type: str = JSON, **settings: int) -> Sorted:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return sort_out(raw, content_type=content_type, encoding="", rules=rules(**settings))


def taken(sorted_out: Sorted) -> list[Signal]:
    return [decode(message.body) for message in sorted_out.messages]


def refusal(body: Any, content_type: str = JSON) -> Refused:
    sorted_out = sort(body, content_type)
    assert not sorted_out.messages
    return sorted_out.refused[0]


def test_one_event_an_array_and_lines_are_read_alike() -> None:
    one = taken(sort(event()))
    many = taken(sort([event(), event(id="e2")]))
    lines = taken(
        sort(
            b"\n".join(msgspec.json.encode(event(id=id_)) for id_ in ("e1", "e2")) + b"\n\n",
            NDJSON[0] + "; charset=utf-8",
        )
    )
    assert one[0] == many[0] == lines[0]
    assert [signal.id for signal in lines] == ["e1", "e2"]
    assert one[0].time_us == T0_US
    assert one[0].target == "chat"
    assert one[0].producer == "shop"


def test_what_goes_on_the_bus_comes_back_equal() -> None:
    for body in (event(), posted(making.finished(3, 1, T0_US - 9, T0_US))):
        sorted_out = sort(body)
        (message,) = sorted_out.messages
        signal = decode(message.body)
        assert encode(signal) == message.body
        assert signal.id == body["id"]
        assert msgspec.to_builtins(signal.data) == body.get("data")
        assert (message.key, message.producer, message.accepted_us) == ("chat", "shop", T0_US)
    with pytest.raises(Malformed):
        decode(b"{}")


def test_the_same_event_written_differently_gives_the_same_bytes() -> None:
    """Or a retry through another client library would be a conflict."""
    shifted = NOW.astimezone(tz=None).isoformat()
    again = dict(reversed(event(time=shifted, value=1.0, target="chat").items()))
    assert sort(again).messages == sort(event()).messages


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("copied", True, 1.0),
        ("copied", False, 0.0),
        ("copied", 1, 1.0),
        ("stars", 4.5, 4.5),
        ("stars", 0, 0.0),
    ],
)
def test_values_become_numbers(name: str, value: object, expected: float) -> None:
    assert taken(sort(event(name=name, value=value)))[0].value == expected


@pytest.mark.parametrize("at", [timedelta(days=-8), timedelta(0), timedelta(minutes=5)])
def test_times_within_eight_days_before_and_five_minutes_after_are_taken(at: timedelta) -> None:
    assert taken(sort(event(time=(NOW + at).isoformat())))


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"id": None}, "id", "missing"),
        ({"id": ""}, "id", "not usable"),
        ({"id": "a b"}, "id", "not usable"),
        ({"id": "é"}, "id", "not usable"),
        ({"id": "x" * 201}, "id", "not usable"),
        ({"id": 7}, "id", "Expected `str`"),
        ({"kind": "vital"}, "kind", "Invalid enum value"),
        ({"kind": "semantic"}, "kind", "is a business metric"),
        ({"name": "copies"}, "name", "not declared"),
        ({"time": None}, "time", "required"),
        ({"time": "2026-09-21T13:33:20"}, "time", "offset"),
        ({"time": "yesterday"}, "time", "Invalid RFC3339"),
        ({"time": 1_790_000_000}, "time", "Expected"),
        ({"time": (NOW - timedelta(days=8, seconds=1)).isoformat()}, "time", "not within"),
        ({"time": (NOW + timedelta(seconds=301)).isoformat()}, "time", "not within"),
        ({"value": None}, "value", "required"),
        ({"value": "yes"}, "value", "Expected"),
        ({"value": 0.5}, "value", "not a boolean"),
        ({"value": 2}, "value", "not a boolean"),
        ({"name": "stars", "value": True}, "value", "not a float"),
        ({"name": "stars", "value": 5.1}, "value", "bounds"),
        ({"name": "stars", "value": -1}, "value", "bounds"),
        ({"request_id": None}, "request_id", "exactly one"),
        ({"external_id": "x1"}, "request_id", "exactly one"),
        ({"session_id": "s1"}, "request_id", "exactly one"),
        ({"request_id": None, "external_id": "x", "session_id": "s"}, "request_id", "exactly one"),
        ({"request_id": None, "session_id": "s 1"}, "session_id", "not usable"),
        ({"model": "m1"}, "model", "only scores"),
        (
            {"command": {"command": "replay", "actor": "ann", "offsets": [1]}},
            "command",
            "only commands",
        ),
        ({"kind": "command"}, "kind", "does not allow"),
        ({"request_id": "chat.7"}, "request_id", "not a request id"),
        ({"request_id": ID.replace("chat", "Chat")}, "request_id", "not a request id"),
        ({"request_id": request_id(1, "other")}, "target", "no such target"),
        ({"target": "other"}, "target", "names another target"),
        ({"request_id": None, "external_id": "x\n", "target": "chat"}, "external_id", "usable"),
        ({"request_id": None, "external_id": "x1", "target": "nope"}, "target", "no such target"),
        ({"data": {"record": "second"}}, "data.seq", "missing"),
        ({"user": "u1"}, "user", "unknown field"),
    ],
)
def test_a_bad_event_is_refused_with_its_field(
    changes: dict[str, Any], field: str, words: str
) -> None:
    refused = refusal(event(**changes))
    assert refused.field == field
    assert words in refused.reason


def test_an_undeclared_metric_is_refused_with_near_matches() -> None:
    assert refusal(event(name="copies")).allowed == ["copied"]
    assert refusal(event(name="zzz")).allowed == sorted(METRICS)


def test_counts_and_durations_keep_to_their_type() -> None:
    declared = {
        "edits": METRICS["stars"].model_copy(update={"type": "count", "high": 10.0}),
        "dwell": METRICS["stars"].model_copy(update={"type": "duration", "high": 10.0}),
    }
    judged_by = msgspec.structs.replace(rules(), definitions=StaticDefinitions(declared).current())

    def outcome(name: str, value: object) -> bool:
        body = msgspec.json.encode(event(name=name, value=value))
        return bool(sort_out(body, content_type=JSON, encoding="", rules=judged_by).messages)

    assert [outcome("edits", value) for value in (3, 3.0, 3.5, -1, True)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [outcome("dwell", value) for value in (3.5, -0.1, 11, False)] == [
        True,
        False,
        False,
        False,
    ]


SECOND = making.second(4, T0_US)
FINISHED = making.finished(3, 1, T0_US - 9, T0_US)
OF_ANOTHER: Finished = msgspec.structs.replace(FINISHED, request_id=request_id(1, "x"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (posted(FINISHED, data=None), "data"),
        (posted(FINISHED, id="r0.i0.4"), "id"),
        (posted(FINISHED, name="arrived"), "name"),
        (posted(FINISHED, target="other"), "target"),
        (posted(FINISHED, value=1), "value"),
        (posted(making.finished(3, 1, T0_US, T0_US - 1)), "data.finished_us"),
        (posted(making.finished(3, 1, T0_US, T0_US + 301 * MICROS)), "data.finished_us"),
        (posted(making.arrived(3, 1, T0_US, external_id="a b")), "data.external_id"),
        (posted(making.arrived(3, 1, T0_US - 9 * 86_400 * MICROS)), "data.arrival_us"),
        (
            posted(msgspec.structs.replace(FINISHED, request_id=request_id(1, "x"))),
            "data.request_id",
        ),
        (posted(making.started(0, T0_US + 301 * MICROS)), "data.at_us"),
        (posted(msgspec.structs.replace(SECOND, from_us=T0_US + 1)), "data.from_us"),
        (posted(msgspec.structs.replace(SECOND, to_us=T0_US + 301 * MICROS)), "data.to_us"),
    ],
)
def test_a_basic_event_must_agree_with_its_record(body: dict[str, Any], field: str) -> None:
    assert refusal(body).field == field


def test_every_record_is_taken_and_its_time_is_the_events() -> None:
    records: list[Record] = [
        making.started(0, T0_US - 2),
        making.arrived(1, 1, T0_US - 1),
        FINISHED,
        SECOND,
    ]
    found = taken(sort([posted(record, time=None) for record in records]))
    assert [each.data for each in found] == records
    assert [each.time_us for each in found] == [T0_US - 2, T0_US - 1, T0_US, T0_US]


def test_the_good_events_of_a_post_are_taken_and_the_bad_ones_named() -> None:
    body = [event(), event(id="e2", name="copies"), 3, event(id="e4")]
    sorted_out = sort(body)
    assert [signal.id for signal in taken(sorted_out)] == ["e1", "e4"]
    assert [(each.index, each.id) for each in sorted_out.refused] == [(1, "e2"), (2, None)]


def test_a_bad_line_is_refused_by_itself() -> None:
    lines = msgspec.json.encode(event()) + b"\n{oops\n" + msgspec.json.encode(event(id="e3"))
    sorted_out = sort(lines, NDJSON[0])
    assert [signal.id for signal in taken(sorted_out)] == ["e1", "e3"]
    assert sorted_out.refused[0].index == 1
    assert "malformed" in sorted_out.refused[0].reason


def test_a_key_takes_only_its_kinds_targets_and_names() -> None:
    narrow = msgspec.structs.replace(
        rules(),
        producer=Producer(name="n", kinds=frozenset({"business"}), names=frozenset({"copied"})),
    )
    body = msgspec.json.encode(
        [event(), event(id="e2", name="resent"), posted(making.second(1, T0_US))]
    )
    sorted_out = sort_out(body, content_type=JSON, encoding="", rules=narrow)
    assert [signal.id for signal in taken(sorted_out)] == ["e1"]
    assert [each.field for each in sorted_out.refused] == ["name", "kind"]
    assert sorted_out.denied == 2


def test_whole_bodies_that_cannot_be_read_are_malformed_or_too_large() -> None:
    for body in (b"", b"[]", b"[1,", b"  "):
        with pytest.raises(Malformed):
            sort(body)
    with pytest.raises(TooLarge):
        read_body(b"[1,2,3]", JSON, max_events=2)
    with pytest.raises(UnsupportedMedia):
        media_type("text/plain")
    with pytest.raises(UnsupportedMedia):
        media_type("")


def test_gzip_is_expanded_within_the_bound() -> None:
    plain = b"[" + b",".join([msgspec.json.encode(event())] * 50) + b"]"
    packed = gzip.compress(plain)
    assert expand(packed, "gzip", limit=len(plain)) == plain
    assert expand(plain, "", limit=10) == plain
    with pytest.raises(TooLarge):
        expand(gzip.compress(bytes(10_000_000)), "gzip", limit=100_000)
    for broken in (packed[:-5], b"plain", packed + b"tail"):
        with pytest.raises(Malformed):
            expand(broken, "gzip", limit=10**6)
    with pytest.raises(UnsupportedMedia):
        expand(packed, "br", limit=10**6)


def cloud(**changes: Any) -> dict[str, Any]:
    made = {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "trimtab.business.copied",
        "time": NOW.isoformat(),
        "datacontenttype": "application/json",
        "data": {"value": True, "request_id": ID},
        "traceparent": "00-ab",
    } | changes
    return {name: value for name, value in made.items() if value is not None}


def test_a_cloud_event_is_read_like_our_own() -> None:
    ours = taken(sort(event(id="/shop#7")))[0]
    assert taken(sort(cloud(), CLOUD_EVENT))[0] == ours
    by_subject = cloud(subject=ID, data={"value": True})
    assert taken(sort(by_subject, CLOUD_EVENT))[0] == ours
    assert taken(sort([cloud(), cloud(id="8")], CLOUD_EVENT_BATCH))[0] == ours


def test_the_same_id_of_two_sources_is_two_cloud_events() -> None:
    found = taken(sort([cloud(), cloud(source="/app")], CLOUD_EVENT_BATCH))
    assert len({each.id for each in found}) == 2


def test_ids_and_sources_of_cloud_events_that_differ_never_look_alike() -> None:
    pairs = [("/a#b", "c"), ("/a", "b#c"), ("/a", "b%23c"), ("/a#b%23c", "d"), ("/a", "b%2523c")]
    found = taken(sort([cloud(source=s, id=i) for s, i in pairs], CLOUD_EVENT_BATCH))
    assert len({signal.id for signal in found}) == len(pairs)


def test_an_engines_record_may_come_as_a_cloud_event() -> None:
    body = cloud(id="r0.i0.3", type="trimtab.basic.finished", data=msgspec.to_builtins(FINISHED))
    assert taken(sort(body, CLOUD_EVENT))[0] == taken(sort(posted(FINISHED)))[0]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"source": None}, "source"),
        ({"data": None}, "data"),
        ({"time": None}, "time"),
        ({"type": "com.shop.copied"}, "type"),
        ({"type": "trimtab.vital.copied"}, "type"),
        ({"type": "trimtab.business"}, "type"),
        ({"datacontenttype": "text/xml"}, "datacontenttype"),
        ({"data": {"value": True, "order": 7}}, "order"),
        ({"data": {"value": True}}, "request_id"),
    ],
)
def test_a_bad_cloud_event_is_refused_with_its_attribute(
    changes: dict[str, Any], field: str
) -> None:
    assert refusal(cloud(**changes), CLOUD_EVENT).field == field
