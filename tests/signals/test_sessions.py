"""Feedback that names a session: the last request before it, once that is certain."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from signals.events import MICROS, Record, Signal
from signals.features.correlate import last_before, nearest, wait_of
from signals.features.reader import SqliteFeatures
from signals.features.requests import row_of_arrival
from signals.settings import FeatureSettings, Slo
from tests.signals.making import T0_US, Folding, arrived, feedback, finished, request_id, second

LATE_US = 30 * MICROS


def bound(features: SqliteFeatures, *numbers: int) -> list[int]:
    return [len(features.outcomes(request_id(number))) for number in numbers]


def at(seconds: float) -> int:
    return T0_US + round(seconds * MICROS)


REQUESTS = [arrived(n, n, at(n), session_id="s") for n in range(4)]
MARK = feedback("f", at(2.5), session_id="s")
PASSED = second(9, at(2.5) + LATE_US)


def test_it_waits_until_the_watermark_is_the_lateness_past_it(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(*REQUESTS, MARK)
    assert bound(features, 0, 1, 2, 3) == [0, 0, 0, 0]
    assert [orphan.signal.id for orphan in features.orphans()] == ["f"]
    folding.take(second(8, at(2.5) + LATE_US - 1))
    assert bound(features, 2) == [0]
    folding.take(PASSED)
    assert bound(features, 0, 1, 2, 3) == [0, 0, 1, 0]
    assert features.orphans_waiting() == 0
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.outcomes == {"copied": {"shop": (1, MICROS)}}


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_whatever_order_it_all_comes_in_the_answer_is_the_same(
    folding: Folding, features: SqliteFeatures, order: tuple[int, ...]
) -> None:
    events: list[Signal | Record] = [*REQUESTS, MARK]
    for index in order:
        folding.take(events[index])
    folding.take(PASSED)
    assert bound(features, 0, 1, 2, 3) == [0, 0, 1, 0]


def test_feedback_that_comes_late_is_bound_at_once(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(*REQUESTS, PASSED)
    folding.take(MARK)
    assert bound(features, 0, 1, 2, 3) == [0, 0, 1, 0]
    counts = features.producers()["shop"]
    assert (counts.joined, counts.orphaned) == (1, 0)


def test_it_is_never_bound_again(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(REQUESTS[0], MARK, PASSED)
    folding.take(*REQUESTS[1:])
    folding.take(second(10, at(200)))
    assert bound(features, 0, 1, 2, 3) == [1, 0, 0, 0]


def test_another_session_and_another_target_are_not_meant(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 1, at(1), session_id="t"), arrived(1, 2, at(2)), MARK, PASSED)
    assert bound(features, 1, 2) == [0, 0]
    assert features.orphans_waiting() == 1


def test_without_a_request_before_it_it_waits_for_one_that_turns_up_after_all(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(arrived(0, 3, at(3), session_id="s"), MARK, PASSED)
    assert bound(features, 3) == [0]
    assert features.producers()["shop"].orphaned == 1
    folding.take(arrived(1, 4, at(2.6), session_id="s"))
    assert features.orphans_waiting() == 1
    folding.take(arrived(2, 5, at(2.5), session_id="s"), arrived(4, 6, at(2.4), session_id="s"))
    assert bound(features, 4, 5, 6) == [0, 1, 0]
    assert features.orphans_waiting() == 0


def test_a_watermark_that_stands_still_is_not_waited_for_for_ever(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(*REQUESTS, MARK)
    folding.take(feedback("n", at(2.5 + 59.9), number=7))
    assert bound(features, 2) == [0]
    folding.take(feedback("o", at(2.5 + 60), number=7))
    assert bound(features, 0, 1, 2, 3) == [0, 0, 1, 0]


def test_what_was_known_when_the_wait_ended_does_not_hang_on_how_the_bus_was_read(
    tmp_path: Path,
) -> None:
    events: list[Signal | Record] = [
        REQUESTS[0],
        MARK,
        feedback("o", at(2.5 + 60), number=7),
        REQUESTS[1],
        REQUESTS[2],
    ]
    found = []
    for name, batches in (("one", [events]), ("each", [[event] for event in events])):
        folding = Folding(tmp_path / f"{name}.db")
        for batch in batches:
            folding.take(*batch)
        folding.close()
        features = SqliteFeatures(tmp_path / f"{name}.db")
        found.append(bound(features, 0, 1, 2))
        features.close()
    assert found == [[1, 0, 0], [1, 0, 0]]


def test_an_orphan_of_a_session_leaves_on_time(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(MARK, PASSED)
    folding.take(feedback("later", at(7 * 86_400 + 10), number=9))
    folding.prune()
    assert [(dead.event_id, dead.reason) for dead in features.dead_letters()] == [
        ("f", "orphan_expired")
    ]


def test_many_that_become_due_at_once_are_all_bound(path: Path, features: SqliteFeatures) -> None:
    folding = Folding(path, batch_events=10)
    folding.take(REQUESTS[0])
    folding.take(*(feedback(f"f{n}", at(1 + n / 100), session_id="s") for n in range(35)))
    for step in range(5):
        folding.take(second(10 + step, at(100 + step)))
    assert bound(features, 0) == [35]
    assert features.orphans_waiting() == 0
    folding.close()


def test_a_session_and_its_ids_survive_a_restart(path: Path, features: SqliteFeatures) -> None:
    first = Folding(path)
    first.take(*REQUESTS, MARK)
    first.close()
    again = Folding(path)
    again.take(MARK)
    again.take(PASSED)
    again.close()
    assert bound(features, 0, 1, 2, 3) == [0, 0, 1, 0]
    assert features.producers()["shop"].duplicate == 1


def test_random_sessions_agree_with_the_definition(tmp_path: Path) -> None:
    seed = 20260
    rng = Random(seed)
    requests = [
        finished(n, n, us, us + MICROS, session_id=rng.choice("ab"))
        for n, us in enumerate(at(rng.random() * 20) for _ in range(60))
    ]
    marks = [
        feedback(f"m{n}", at(rng.random() * 22 - 1), session_id=rng.choice("ab")) for n in range(60)
    ]
    events: list[Signal | Record] = [*requests, *marks]
    rng.shuffle(events)
    folding = Folding(tmp_path / "f.db")
    folding.take_all([*events, second(60, at(100))], rng)
    folding.close()
    features = SqliteFeatures(tmp_path / "f.db")
    expected = {}
    for mark in marks:
        before = [
            r for r in requests if r.session_id == mark.session_id and r.arrival_us <= mark.time_us
        ]
        if before:
            expected[mark.id] = max(before, key=lambda r: (r.arrival_us, r.request_id)).request_id
    found = {
        outcome.event_id: outcome.request_id
        for request in requests
        for outcome in features.outcomes(request.request_id)
    }
    features.close()
    assert found == expected, f"seed {seed}"


def test_which_request_is_meant() -> None:
    rows = [row_of_arrival(arrived(n, n, at(n)), Slo()) for n in (3, 1, 2)]
    for seconds, before, near in ((0, None, 1), (1, 1, 1), (2.9, 2, 2), (9, 3, 3)):
        last = last_before(rows, at(seconds))
        assert (last.request_id if last else None) == (request_id(before) if before else None)
        nearby = nearest(rows, at(seconds))
        assert nearby is not None
        assert nearby.request_id == request_id(near)
    assert nearest([], at(1)) is None


def test_the_wait_counts_from_the_later_of_event_and_acceptance() -> None:
    settings = FeatureSettings(lateness_s=30, correlate_s=20)
    on_time = wait_of(at(0), at(1), settings)
    assert (on_time.due_us, on_time.give_up_us) == (at(30), at(50))
    assert wait_of(at(0), at(3600), settings).give_up_us == at(3620)
