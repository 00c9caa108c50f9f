"""Windows that an engine counts for itself are the windows that its requests would have made."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from signals.errors import Rejected
from signals.events import MICROS, Arrived, Counted, Finished, Named, Record, SeenTrial, Signal
from signals.features.edge import KEPT_S, EdgeCounter
from signals.features.reader import SqliteFeatures
from signals.ingest.keys import Producer
from signals.rules import Rules
from signals.settings import IngestSettings
from signals.validation import Judge
from signals.wire import read_posted
from tests.signals import making
from tests.signals.making import T0_US, Folding, arrived, feedback, finished, request_id, second
from tests.signals.posted_events import posted
from tests.signals.test_windows_are_order_free import folded, late, life, time_of

SECOND = MICROS


def counter(source: str = "edge-1", first_seq: int = 0) -> EdgeCounter:
    return EdgeCounter(making.rules(), source=source, first_seq=first_seq)


def at_the_edge(rng: Random, events: list[Signal | Record]) -> list[Signal | Record]:
    """The same life as the engines' edges tell it, in pieces of random sizes."""
    told: list[Signal | Record] = [event for event in events if isinstance(event, Signal)]
    for replica in ("r0", "r1"):
        edge = counter(f"{replica}.edge")
        records = [
            event
            for event in events
            if not isinstance(event, Signal) and event.stamp.replica == replica
        ]
        records.sort(key=lambda record: record.seq)
        while records:
            size = rng.randint(1, 30)
            told.extend(edge.take(records[:size]))
            del records[:size]
    return told


@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counted_at_the_edge_in_any_order_gives_the_same_bytes_as_request_by_request(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    note(f"seed {seed}")
    rng = Random(seed)
    events = life(rng)
    folder = tmp_path_factory.mktemp("edge")
    direct = folded(folder / "direct.db", sorted(events, key=time_of), rng)
    told = at_the_edge(rng, events)
    assert not [event for event in told if isinstance(event, Arrived | Finished)]
    counted = folded(folder / "counted.db", late(rng, told), rng)
    for what in ("atoms", "minutes", "outcomes"):
        assert counted[what] == direct[what], what


def windows_of(features: SqliteFeatures) -> list[tuple[int, int, int]]:
    found = features.windows("chat", from_us=0, to_us=2 * T0_US)
    return [(w.counts.requests, w.counts.completed, w.counts.ttft.count) for w in found]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_higher_revision_replaces_what_its_source_said_and_a_lower_one_changes_nothing(
    folding: Folding, features: SqliteFeatures, in_order: bool
) -> None:
    edge = counter()
    first = edge.take([arrived(0, 1, T0_US), finished(0, 1, T0_US, T0_US + SECOND)])
    more = edge.take([arrived(0, 2, T0_US + 1), finished(0, 2, T0_US + 1, T0_US + SECOND)])
    for told in (first, more) if in_order else (more, first):
        folding.take(*told)
    assert windows_of(features) == [(2, 2, 2)]


def test_two_sources_of_a_window_are_added_up(folding: Folding, features: SqliteFeatures) -> None:
    one, two = counter("one"), counter("two", first_seq=100)
    for number, edge in enumerate((one, two)):
        told = edge.take([arrived(0, number, T0_US), finished(0, number, T0_US, T0_US + SECOND)])
        folding.take(*told)
    assert windows_of(features) == [(2, 2, 2)]


def test_the_same_revision_with_other_counts_is_a_conflict_and_is_not_counted(
    folding: Folding, features: SqliteFeatures
) -> None:
    told = counter().take([arrived(0, 1, T0_US), finished(0, 1, T0_US, T0_US + SECOND)])
    folding.take(*told)
    (window,) = [record for record in told if isinstance(record, Counted)]
    other = msgspec.structs.replace(window.counts, completed=7)
    folding.take(msgspec.structs.replace(window, seq=50, counts=other))
    assert windows_of(features) == [(1, 1, 1)]
    assert [letter.reason for letter in features.dead_letters()] == ["conflict"]


def test_a_window_that_is_not_kept_any_more_is_a_dead_letter(
    folding: Folding, features: SqliteFeatures
) -> None:
    told = counter(first_seq=1).take([finished(0, 1, T0_US, T0_US + SECOND)])
    folding.take(second(0, T0_US + 3 * 3600 * SECOND))
    folding.take(*[record for record in told if isinstance(record, Counted)])
    assert [letter.reason for letter in features.dead_letters()] == ["window_forgotten"]


def test_feedback_is_joined_to_named_requests_before_and_after_they_are_named(
    folding: Folding, features: SqliteFeatures
) -> None:
    told = counter().take(
        [
            arrived(0, 1, T0_US, external_id="order-1"),
            arrived(0, 2, T0_US, external_id="order-2"),
            finished(0, 1, T0_US, T0_US + SECOND),
        ]
    )
    folding.take(feedback("early", T0_US + SECOND, number=None, external_id="order-1"))
    folding.take(*told)
    folding.take(feedback("later", T0_US + 2 * SECOND, number=2))
    assert [len(features.outcomes(request_id(n))) for n in (1, 2)] == [1, 1]
    (window,) = features.windows("chat", from_us=0, to_us=2 * T0_US)
    assert window.counts.requests == 2
    assert window.counts.outcomes == {"copied": {"shop": (2, 2 * SECOND)}}


def test_no_trial_reads_requests_that_were_counted_at_the_edge(
    folding: Folding, features: SqliteFeatures
) -> None:
    by = making.stamp(trial=SeenTrial(id="t1", block=0, arm="candidate"))
    folding.take(*counter().take([arrived(0, 1, T0_US, by=by)]))
    folding.take(arrived(900, 2, T0_US, by=by))
    assert [row.request_id for row in features.trial_requests("t1")] == [request_id(2)]
    row = features.request(request_id(1))
    assert row is not None
    assert (row.counted, row.trial, row.arm) == (True, "t1", "candidate")


def test_an_unfinished_request_has_failed_at_its_deadline_at_the_edge_too() -> None:
    edge = counter()
    edge.take([arrived(0, 1, T0_US)])
    told = edge.take([second(0, T0_US + 3600 * SECOND)])
    (window,) = [record for record in told if isinstance(record, Counted)]
    assert (window.counts.judged, window.counts.good) == (1, 0)


def test_thousands_of_names_go_in_records_of_a_thousand() -> None:
    told = counter().take([arrived(0, number, T0_US + number) for number in range(2_500)])
    assert [len(one.requests) for one in told if isinstance(one, Named)] == [1000, 1000, 500]
    assert [record.seq for record in told] == list(range(len(told)))


def test_records_of_more_than_the_kept_time_are_counted_in_one_call() -> None:
    """As after a long outage, with little going on."""
    told = counter().take(
        [
            arrived(0, 1, T0_US),
            finished(1, 1, T0_US, T0_US + SECOND),
            second(2, T0_US + 2 * KEPT_S * SECOND),
        ]
    )
    assert sum(one.counts.completed for one in told if isinstance(one, Counted)) == 1


def test_what_is_too_late_to_be_counted_is_refused_and_nothing_of_it_taken() -> None:
    edge = counter()
    latest_us = T0_US + (KEPT_S + 100) * SECOND
    edge.take([second(0, latest_us)])
    with pytest.raises(Rejected, match="too late"):
        edge.take(
            [arrived(0, 2, T0_US + (KEPT_S + 100) * SECOND), finished(0, 1, T0_US, T0_US + 1)]
        )
    told = edge.take([arrived(0, 2, latest_us)])
    assert [record.seq for record in told] == [1, 2]


def test_what_the_edge_posts_is_what_ingest_takes() -> None:
    told = counter().take(
        [
            arrived(0, 1, T0_US, external_id="order-1", session_id="s1"),
            finished(0, 1, T0_US, T0_US + SECOND),
            second(0, T0_US + 2 * SECOND),
        ]
    )
    for record in told:
        raw = msgspec.json.encode(posted(record))
        assert Judge(ingest_rules()).check(read_posted(raw)).data == record


def ingest_rules() -> Rules:
    return Rules(
        producer=Producer(name="engine", kinds=frozenset({"basic"})),
        definitions={},
        targets={"chat"},
        settings=IngestSettings(),
        now_us=T0_US,
    )


def test_records_that_were_lost_before_they_were_counted_leave_their_window_incomplete(
    folding: Folding, features: SqliteFeatures
) -> None:
    edge = counter()
    folding.take(*edge.take([second(0, T0_US + SECOND)]))
    folding.take(*edge.take([second(2, T0_US + 3 * SECOND), second(3, T0_US + 60 * SECOND)]))
    found = features.windows("chat", from_us=0, to_us=2 * T0_US)
    assert [window.incomplete for window in found if window.key.start_us == T0_US] == [True, True]
