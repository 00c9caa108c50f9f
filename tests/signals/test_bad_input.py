"""Bad input: each with its error, and nothing valid beside it lost."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from signals.events import SeenTrial
from tests.signals import making
from tests.signals.bad_events import CLOUD, JUDGED, LINES, Bad
from tests.signals.making import T0_US
from tests.signals.posted_events import (
    about,
    cloud,
    command,
    counted,
    event,
    named,
    posted,
    score,
)
from tests.signals.posting import Ingest

JSON = "application/json"
NDJSON = "application/x-ndjson"
BATCH = "application/cloudevents-batch+json"
GOOD = ("good-1", "good-2")


def cases(tables: dict[str, tuple[Bad, ...]]) -> list[Any]:
    return [
        pytest.param(bad, id=f"{class_}-{number}")
        for class_, bads in tables.items()
        for number, bad in enumerate(bads)
    ]


@pytest.fixture(scope="module")
def ingest() -> Iterator[Ingest]:
    yield Ingest()


def as_array(bad: Any) -> bytes:
    return msgspec.json.encode([event(id=GOOD[0]), bad, event(id=GOOD[1])])


def as_lines(bad: Any) -> bytes:
    line = bad if isinstance(bad, bytes) else msgspec.json.encode(bad)
    good = [msgspec.json.encode(event(id=id_)) for id_ in GOOD]
    return b"\n".join([good[0], line, good[1]])


def assert_refused_among_good_ones(answer: Any, bad: Bad, ingest: Ingest) -> None:
    """The bad one is named, and the good ones are on the bus."""
    assert answer.status_code == 202, answer.text
    assert answer.json()["accepted"] == 2
    (refused,) = answer.json()["refused"]
    assert refused["index"] == 1
    assert refused.get("field") == bad.field
    assert bad.words in refused["reason"]
    assert [signal.id.rpartition("#")[2] for signal in ingest.arrived()] == list(GOOD)


def test_there_are_at_least_12_classes_and_60_cases_of_bad_events() -> None:
    tables = [*JUDGED.values(), *LINES.values(), *CLOUD.values()]
    assert len(tables) >= 12
    assert sum(len(bads) for bads in tables) >= 60


@pytest.mark.parametrize("bad", cases(dict(JUDGED)))
def test_a_bad_event_is_refused_and_its_neighbours_are_taken(bad: Bad, ingest: Ingest) -> None:
    assert_refused_among_good_ones(ingest.post(as_array(bad.event)), bad, ingest)
    assert_refused_among_good_ones(ingest.post(as_lines(bad.event), NDJSON), bad, ingest)


@pytest.mark.parametrize("bad", cases(dict(JUDGED)))
def test_a_bad_event_alone_is_422_and_nothing_is_taken(bad: Bad, ingest: Ingest) -> None:
    answer = ingest.post([bad.event])
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["accepted"] == 0
    assert answer.json()["refused"][0].get("field") == bad.field
    assert ingest.arrived() == []


@pytest.mark.parametrize("bad", cases(dict(LINES)))
def test_a_bad_line_is_refused_and_its_neighbours_are_taken(bad: Bad, ingest: Ingest) -> None:
    assert_refused_among_good_ones(ingest.post(as_lines(bad.event), NDJSON), bad, ingest)


@pytest.mark.parametrize("bad", cases(dict(CLOUD)))
def test_a_bad_cloud_event_is_refused_and_its_neighbours_are_taken(
    bad: Bad, ingest: Ingest
) -> None:
    good = [cloud(id=id_) for id_ in GOOD]
    answer = ingest.post([good[0], bad.event, good[1]], BATCH)
    assert_refused_among_good_ones(answer, bad, ingest)


DENIED = {
    "a kind": ("shop-key", posted(making.second(1, T0_US)), "kind"),
    "a score": ("shop-key", score(), "kind"),
    "a name": ("copied-key", event(name="stars", value=1), "name"),
    "a target": ("chat-key", about(external_id="x", target="code"), "target"),
    "a command": ("shop-key", command(), "kind"),
    "a command by a star": ("star-key", command(), "kind"),
    "another target's command": ("chat-key", command() | {"target": "code"}, "target"),
}


@pytest.mark.parametrize("case", DENIED.values(), ids=DENIED.keys())
def test_what_the_key_does_not_cover_is_denied_and_its_neighbours_are_taken(
    case: tuple[str, Any, str], ingest: Ingest
) -> None:
    key, bad, field = case
    answer = ingest.post(as_array(bad), key=key)
    assert_refused_among_good_ones(answer, Bad(bad, field, "the key does not allow"), ingest)
    alone = ingest.post(bad, key=key)
    assert alone.status_code == 403
    assert ingest.arrived() == []


WHOLE: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "no key": (b"{}", {"Authorization": ""}, 401, "bearer key"),
    "an unknown key": (b"{}", {"Authorization": "Bearer guess"}, 401, "bearer key"),
    "another scheme": (b"{}", {"Authorization": "Basic all-key"}, 401, "bearer key"),
    "a key that is no text": (b"{}", {"Authorization": "Bearer \xff\xfe"}, 401, "bearer key"),
    "no type": (b"{}", {"Content-Type": ""}, 415, "content type"),
    "another type": (b"a,b", {"Content-Type": "text/csv"}, 415, "content type"),
    "another encoding": (b"{}", {"Content-Encoding": "br"}, 415, "content encoding"),
    "two encodings": (b"{}", {"Content-Encoding": "gzip, gzip"}, 415, "content encoding"),
    "no gzip": (b"{}", {"Content-Encoding": "gzip"}, 400, "not gzip"),
    "half a gzip": (gzip.compress(b"[{}]")[:-4], {"Content-Encoding": "gzip"}, 400, "truncated"),
    "a gzip with a tail": (gzip.compress(b"{}") + b"x", {"Content-Encoding": "gzip"}, 400, "tail"),
    "a gzip bomb": (gzip.compress(bytes(10**8)), {"Content-Encoding": "gzip"}, 413, "expands"),
    "no body": (b"", {}, 400, "no event"),
    "blanks": (b" \n ", {}, 400, "no event"),
    "no events": (b"[]", {}, 400, "no event"),
    "blank lines": (b"\n" * 50, {"Content-Type": NDJSON}, 400, "no event"),
    "an open array": (b"[{},", {}, 400, "not a JSON array"),
    "arrays without end": (b"[" * 90_000, {}, 400, "not a JSON array"),
    "too many events": (b"[" + b"0," * 200 + b"0]", {}, 413, "201 events"),
    "too many lines": (b"0\n" * 201, {"Content-Type": NDJSON}, 413, "201"),
    "far too many lines": (b"\n" * 90_000, {"Content-Type": NDJSON}, 413, "lines"),
    "far too many returns": (b"\r" * 90_000, {"Content-Type": NDJSON}, 413, "lines"),
    "too many bytes": (b" " * 100_001, {}, 413, "100001 bytes"),
}


@pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE.keys())
def test_a_bad_body_is_a_problem_document_and_the_next_post_is_taken(
    case: tuple[bytes, dict[str, str], int, str],
) -> None:
    body, headers, status, words = case
    ingest = Ingest(max_body_bytes=100_000, max_events=200)
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = ingest.post(body, headers=encoded)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert words in answer.json()["detail"]
    assert ingest.arrived() == []
    assert ingest.post(event(id="next")).status_code == 202
    assert [signal.id for signal in ingest.arrived()] == ["next"]


def test_what_the_tables_make_bad_is_good_without_the_change(ingest: Ingest) -> None:
    """Or the cases would be refused for another reason than the one they are about."""
    deep = making.stamp(trial=SeenTrial(id="t", block=1, arm="candidate"))
    good = [
        event(id="b1"),
        event(id="b2", name="edits", value=3),
        event(id="b3", name="dwell", value=2.5),
        event(id="b4", name="stars", value=5),
        score(id="s1"),
        about(id="a1", external_id="x1"),
        about(id="a2", session_id="s1"),
        *(command(name) | {"id": name} for name in ("replay", "discard", "quarantine")),
        posted(making.finished(3, 1, T0_US - 9, T0_US)),
        posted(making.arrived(2, 1, T0_US, by=deep)),
        posted(making.second(4, T0_US)),
        posted(making.started(5, T0_US)),
        posted(counted()),
        posted(named()),
        posted(msgspec.structs.replace(named(1000), seq=11)),
    ]
    answer = ingest.post(good)
    assert answer.json() == {"accepted": len(good), "duplicates": 0, "refused": []}
    assert [signal.id for signal in ingest.arrived()] == [each["id"] for each in good]
    assert ingest.post([cloud(id="c1")], BATCH).json()["accepted"] == 1
    ingest.arrived()


def test_names_that_clients_make_up_do_not_become_labels_of_counters() -> None:
    ingest = Ingest()
    ingest.post([event(**{f"made_up_{number}": 1}) for number in range(50)])
    assert 'trimtab_signals_refused_total{field="other"} 50.0' in ingest.metrics()
    assert "made_up" not in ingest.metrics()
