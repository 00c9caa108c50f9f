"""Bytes, JSON documents and maimed events: never a crash, never a valid neighbour lost."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from signals.codec import CONTENT_TYPES
from tests.signals import making
from tests.signals.making import T0_US
from tests.signals.posted_events import (
    about,
    command,
    counted,
    event,
    named,
    posted,
    score,
)
from tests.signals.posting import Ingest

ANSWERS = {202, 400, 403, 413, 415, 422}
GOOD = ("good-1", "good-2")
VALID = [
    event(),
    score(),
    about(external_id="x1"),
    about(session_id="s1"),
    command("replay"),
    command("discard"),
    command("quarantine"),
    posted(making.arrived(2, 1, T0_US)),
    posted(making.finished(3, 1, T0_US - 9, T0_US)),
    posted(making.second(4, T0_US)),
    posted(making.started(5, T0_US)),
    posted(counted()),
    posted(named()),
]
EDGES = [0, -1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**40, -(10**40), 1e300, -0.0, 5e-324]
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(EDGES)
)  # fmt: skip
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
bounded = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
ingest = Ingest(max_body_bytes=100_000, max_events=200)


def encoded(document: Any) -> bytes:
    """As JSON, as Python's own encoder writes it: whole numbers of any size."""
    return json.dumps(document).encode()


@bounded
@given(
    body=st.binary(max_size=300),
    content_type=st.sampled_from(CONTENT_TYPES) | st.text(max_size=20),
    packed=st.sampled_from(["", "gzip", "really gzip"]),
)
def test_any_bytes_get_an_answer(body: bytes, content_type: str, packed: str) -> None:
    content = gzip.compress(body) if packed == "really gzip" else body
    headers = {"Content-Encoding": "gzip"} if packed else {}
    answer = ingest.post(content, headers=headers | {"Content-Type": content_type.encode()})
    assert answer.status_code in ANSWERS
    assert answer.json()["status"] == answer.status_code


@bounded
@given(line=st.binary(max_size=200))
def test_no_line_of_bytes_takes_its_neighbours_along(line: bytes) -> None:
    assert_neighbours_are_taken(line.replace(b"\n", b" ").replace(b"\r", b" "))


@bounded
@given(document=DOCUMENTS)
def test_no_document_takes_its_neighbours_along(document: Any) -> None:
    assert_neighbours_are_taken(encoded(document), in_array=True)


@bounded
@given(
    members=st.dictionaries(st.sampled_from(sorted(event() | about() | posted(named()))), DOCUMENTS)
)
def test_no_event_of_any_members_takes_its_neighbours_along(members: dict[str, Any]) -> None:
    assert_neighbours_are_taken(encoded(members), in_array=True)


@bounded
@given(picked=st.data())
def test_no_maimed_event_takes_its_neighbours_along(picked: st.DataObject) -> None:
    maimed = picked.draw(st.sampled_from(VALID).map(_copy))
    for _ in range(picked.draw(st.integers(1, 3))):
        _maim(maimed, picked)
    assert_neighbours_are_taken(encoded(maimed), in_array=True)


@bounded
@given(picked=st.data())
def test_no_cut_or_flipped_event_takes_its_neighbours_along(picked: st.DataObject) -> None:
    line = bytearray(encoded(picked.draw(st.sampled_from(VALID))))
    place = picked.draw(st.integers(0, len(line) - 1))
    if picked.draw(st.booleans()):
        del line[place:]
    else:
        line[place] = picked.draw(st.integers(0, 255).filter(lambda byte: byte not in b"\r\n"))
    assert_neighbours_are_taken(bytes(line))


def assert_neighbours_are_taken(raw: bytes, *, in_array: bool = False) -> None:
    """Post ``raw`` between two valid events: in lines, and where it is JSON in an array."""
    good = [encoded(event(id=id_)) for id_ in GOOD]
    between = [good[0], raw, good[1]]
    answers = [ingest.post(b"\n".join(between), "application/x-ndjson")]
    taken = [ingest.arrived()]
    if in_array:
        answers.append(ingest.post(b"[" + b",".join(between) + b"]"))
        taken.append(ingest.arrived())
    for answer, signals in zip(answers, taken, strict=True):
        assert answer.status_code == 202, answer.text
        outcome = answer.json()
        ids = [signal.id for signal in signals]
        assert outcome["accepted"] == len(ids)
        assert (ids[0], ids[-1]) == GOOD
        if raw.strip():
            assert len(ids) + len(outcome["refused"]) == 3
    if in_array:
        assert taken[0] == taken[1]


def _copy(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


def _maim(document: Any, picked: st.DataObject) -> None:
    """Replace, remove or add a member somewhere in the document."""
    place = document
    while True:
        inner = [each for each in _children(place) if isinstance(each, dict | list) and each]
        if not inner or not picked.draw(st.booleans()):
            break
        place = picked.draw(st.sampled_from(inner))
    if isinstance(place, list):
        place[picked.draw(st.integers(0, len(place) - 1))] = picked.draw(DOCUMENTS)
    elif place and picked.draw(st.booleans()):
        place[picked.draw(st.sampled_from(sorted(place)))] = picked.draw(DOCUMENTS)
    elif place and picked.draw(st.booleans()):
        del place[picked.draw(st.sampled_from(sorted(place)))]
    else:
        place[picked.draw(st.text(max_size=5))] = picked.draw(SCALARS)


def _children(place: Any) -> list[Any]:
    return list(place.values()) if isinstance(place, dict) else list(place)
