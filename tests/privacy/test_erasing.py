"""After an erasure nothing in ``features.db`` leads to whom it was about; the figures stay."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from signals.events import MICROS, Erase, ErasedBy, Named, NamedRequest
from tests.signals.making import T0_US, arrived, feedback, finished, request_id, second, stamp
from tests.signals.on_the_bus import OPERATOR, OnTheBus, accounted, folded_afresh

SESSION = "canary-session-1"
EXTERNAL = "canary-order-1"


@pytest.fixture
def line(tmp_path: Path) -> Iterator[OnTheBus]:
    made = OnTheBus(tmp_path)
    yield made
    made.close()


def erasure(by: ErasedBy, *ids: str) -> Erase:
    return Erase(actor=OPERATOR, by=by, ids=ids)


def lived(line: OnTheBus) -> None:
    """Two requests of somebody, one of somebody else, feedback on each, by every way."""
    for number, session in ((1, SESSION), (2, SESSION), (3, "other-session")):
        at_us = T0_US + number * MICROS
        ids: dict[str, Any] = {
            "session_id": session,
            "external_id": EXTERNAL if number == 1 else f"o-{number}",
        }
        line.take(
            arrived(2 * number, number, at_us, **ids),
            replace(
                finished(2 * number + 1, number, at_us, at_us + 400_000, **ids),
                error=f"canary-error-{number}",
            ),
        )
    line.take(
        feedback("f1", number=1, at_us=T0_US + 3 * MICROS),
        feedback("f2", session_id=SESSION, at_us=T0_US + 4 * MICROS),
        feedback("f3", external_id=EXTERNAL, at_us=T0_US + 4 * MICROS),
        feedback("f4", number=3, at_us=T0_US + 4 * MICROS),
        feedback("canary-event-5", session_id=SESSION, at_us=T0_US),
        feedback("late", name="stars", value=3.0, number=2, at_us=T0_US + 5000 * MICROS),
        feedback("gone", name="nosuch", number=1, at_us=T0_US + 5 * MICROS),
        feedback("waits", external_id="canary-order-9", at_us=T0_US + 5 * MICROS),
        b"not json canary-session-1",
        b"not json",
    )
    for number in range(4):
        line.take(second(100 + number, T0_US + (40 + number) * MICROS))


def everything(path: Path) -> bytes:
    """The file, and what lies beside it."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def held(path: Path, text: str) -> list[str]:
    """Tables with a row that holds the text."""
    with closing(sqlite3.connect(path)) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = []
        for name in tables:
            for row in db.execute(f"SELECT * FROM {name}"):
                if any(
                    text in (c.decode("latin-1") if isinstance(c, bytes) else str(c)) for c in row
                ):
                    found.append(name)
        return found


def test_a_session_is_let_go_of_and_the_figures_stay(line: OnTheBus) -> None:
    lived(line)
    windows = line.features.windows("chat", from_us=0, to_us=T0_US * 2)
    before = line.features.find_requests("chat", limit=10)
    assert held(line.file, SESSION)
    outcome = line.order(erasure("session", SESSION))
    assert (outcome.command, outcome.left) == ("erase", 0)
    assert outcome.done > 0
    for text in (SESSION, EXTERNAL, request_id(1), request_id(2), "canary-error-1", "canary-event"):
        assert held(line.file, text) == [], text
    assert held(line.file, "canary-order-9") == ["orphans"]
    assert line.features.windows("chat", from_us=0, to_us=T0_US * 2) == windows
    after = line.features.find_requests("chat", limit=10)
    assert [(r.arrival_us, r.ttft_us, r.good) for r in after] == [
        (r.arrival_us, r.ttft_us, r.good) for r in before
    ]
    assert len(line.features.outcomes(request_id(3))) == 1
    assert held(line.file, "other-session")
    accounted(line)


def test_no_byte_of_it_is_left_in_the_file(line: OnTheBus) -> None:
    """Of rows that were there when it was erased; pages that were given back whole before, and not
    used again, would need VACUUM, which is what docs/privacy.md says."""
    lived(line)
    line.order(erasure("session", SESSION))
    line.order(erasure("external", "canary-order-9"))
    found = everything(line.file)
    for text in (SESSION, "canary-order-9", EXTERNAL, "canary-event", request_id(1)):
        assert text.encode() not in found, text
    assert b"other-session" in found


@pytest.mark.parametrize(
    ("by", "id_"), [("request", request_id(1)), ("external", EXTERNAL), ("session", SESSION)]
)
def test_it_goes_by_any_of_its_ids_and_twice_is_once(
    line: OnTheBus, by: ErasedBy, id_: str
) -> None:
    lived(line)
    assert line.order(erasure(by, id_)).done > 0
    assert held(line.file, id_) == []
    assert line.features.request(request_id(1)) is None
    again = line.order(erasure(by, id_))
    assert (again.done, again.left) == (0, 0)
    accounted(line)


def test_what_was_stored_plain_and_hashed_goes_at_once(line: OnTheBus) -> None:
    line.take(
        feedback("a", session_id="plain-canary", at_us=T0_US),
        feedback("b", session_id="s~hashed-canary", at_us=T0_US),
    )
    assert line.order(erasure("session", "s~hashed-canary", "plain-canary")).done == 2
    assert held(line.file, "canary") == []


def test_the_same_event_posted_again_is_not_stored_again(line: OnTheBus) -> None:
    event = feedback("f9", session_id=SESSION, at_us=T0_US)
    line.take(event)
    line.order(erasure("session", SESSION))
    line.take(event)
    assert held(line.file, SESSION) == []


def test_a_replay_of_the_whole_bus_ends_without_it_too(line: OnTheBus, tmp_path: Path) -> None:
    lived(line)
    line.order(erasure("session", SESSION))
    folded_afresh(line, tmp_path).close()
    assert held(tmp_path / "scratch.db", SESSION) == []
    assert held(tmp_path / "scratch.db", "other-session")


def test_more_than_one_command_takes_is_left_and_said(tmp_path: Path) -> None:
    with closing(OnTheBus(tmp_path, erased_rows=2)) as line:
        line.take(*(feedback(f"e{n}", session_id=SESSION, at_us=T0_US + n) for n in range(5)))
        left = [line.order(erasure("session", SESSION)).left for _ in range(3)]
        assert left == [3, 1, 0]
        assert held(line.file, SESSION) == []


def test_requests_named_at_the_edge_go_too(line: OnTheBus) -> None:
    request = NamedRequest(
        request_id=request_id(1),
        intent="live",
        class_="interactive",
        arrival_us=T0_US,
        session_id=SESSION,
    )
    line.take(Named(seq=1, stamp=stamp(), at_us=T0_US, requests=(request,)))
    line.order(erasure("session", SESSION))
    assert held(line.file, SESSION) == []
    assert held(line.file, request_id(1)) == []


def test_dead_letters_are_dropped_when_they_are_old_and_counted(tmp_path: Path) -> None:
    with closing(OnTheBus(tmp_path, letter_retention_s=3600, prune_every_s=0.001)) as line:
        line.take(b"not json canary", b"not json either")
        line.now_us += 3600 * MICROS
        line.take(b"not json, a younger one")
        while line.features.dead_letters_dropped() == 0:
            line.now_us += MICROS
            line.take(second(line.now_us // MICROS, line.now_us))
        (left,) = line.features.dead_letters(limit=10)
        assert left.body == b"not json, a younger one"
        assert line.features.dead_letters_dropped() == 2
        assert held(line.file, "canary") == []
