"""Invariants 1 and 3: feedback finds its request, once, whichever comes first."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from signals.bus.port import Entry
from signals.definitions import StaticDefinitions
from signals.errors import Fenced
from signals.events import MICROS, Record, Signal
from signals.features.lookups import ORPHAN_MATCHES
from signals.features.reader import SqliteFeatures
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore
from signals.settings import MetricSettings
from tests.signals.making import (
    T0_US,
    Folding,
    arrived,
    entries,
    feedback,
    finished,
    request_id,
    rules,
    second,
)

HOUR_US = 3600 * MICROS


def values(features: SqliteFeatures, number: int = 1) -> list[tuple[str, float]]:
    return [(each.metric, each.value) for each in features.outcomes(request_id(number))]


def copied(features: SqliteFeatures) -> list[tuple[int, int]]:
    windows = features.windows("chat", from_us=0, to_us=2**62)
    found = [window.counts.outcomes.get("copied", {}).get("shop") for window in windows]
    return [each for each in found if each is not None]


ARRIVED = arrived(0, 1, T0_US, external_id="order-7")
FINISHED = finished(1, 1, T0_US, T0_US + MICROS, external_id="order-7")
BY_ID = feedback("a", T0_US + 2 * MICROS, number=1)
BY_EXTERNAL = feedback("b", T0_US + 2 * MICROS, external_id="order-7", name="resent")


def test_an_event_posted_again_after_its_metric_changed_is_a_duplicate_and_no_conflict(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, FINISHED)
    for definition in (1, 2, 12):
        folding.take(feedback("a", T0_US + 2 * MICROS, number=1, definition=definition))
    assert values(features) == [("copied", 1.0)]
    assert features.dead_letters() == []


@pytest.mark.parametrize(
    "order", list(itertools.permutations([ARRIVED, FINISHED, BY_ID, BY_EXTERNAL]))
)
@pytest.mark.parametrize("together", [True, False])
def test_feedback_joins_before_and_after_its_request(
    folding: Folding,
    features: SqliteFeatures,
    order: tuple[Signal | Record, ...],
    together: bool,
) -> None:
    for batch in [order] if together else [(each,) for each in order]:
        folding.take(*batch)
    assert sorted(values(features)) == [("copied", 1.0), ("resent", 1.0)]
    assert features.orphans() == []
    assert copied(features) == [(1, MICROS)]


def test_feedback_without_its_request_is_kept_and_can_be_seen(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(BY_ID, BY_EXTERNAL)
    assert values(features) == []
    assert [orphan.signal.id for orphan in features.orphans()] == ["a", "b"]
    assert features.orphans_waiting() == 2
    assert features.producers()["shop"].orphaned == 2
    folding.take(FINISHED)
    assert features.orphans_waiting() == 0
    assert features.producers()["shop"].joined == 2


def test_the_same_event_again_is_counted_once_days_later_too(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, BY_ID, BY_ID)
    folding.take(feedback("z", T0_US + 5 * 24 * HOUR_US, number=1), BY_ID)
    folding.take(BY_ID)
    assert [value for value in values(features) if value[0] == "copied"] == [("copied", 1.0)] * 2
    assert features.producers()["shop"].duplicate == 3
    assert features.dead_letters() == []


@pytest.mark.parametrize(
    "other",
    [
        feedback("a", T0_US + 2 * MICROS, number=1, value=0.0),
        feedback("a", T0_US + 3 * 24 * HOUR_US, number=1),
        feedback("a", T0_US + 2 * MICROS, number=2),
    ],
)
def test_the_same_id_with_another_body_is_a_dead_letter(
    folding: Folding, features: SqliteFeatures, other: Signal
) -> None:
    folding.take(ARRIVED, BY_ID)
    folding.take(other)
    assert values(features) == [("copied", 1.0)]
    (dead,) = features.dead_letters()
    assert (dead.reason, dead.event_id, dead.producer) == ("conflict", "a", "shop")
    assert b'"id":"a"' in dead.body


def test_the_same_id_of_two_producers_is_two_events(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, BY_ID, feedback("a", T0_US + MICROS, number=1, producer="app"))
    assert len(values(features)) == 2


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("together", [True, False])
def test_of_several_values_of_a_request_the_last_counts_or_their_sum_in_any_order(
    folding: Folding, features: SqliteFeatures, order: tuple[int, ...], together: bool
) -> None:
    marks = [
        (
            feedback(f"c{n}", T0_US + at_s * MICROS, number=1, value=said),
            feedback(f"s{n}", T0_US + at_s * MICROS, number=1, name="stars", value=stars),
            feedback(f"p{n}", T0_US + at_s * MICROS, number=1, name="pastes", value=pastes),
        )
        for n, at_s, said, stars, pastes in (
            (0, 3, 1.0, 1.5, 2),
            (1, 9, 0.0, 4.5, 0),
            (2, 5, 1.0, 5, 1),
        )
    ]
    batches = [marks[n] for n in order]
    folding.take(ARRIVED)
    for batch in [tuple(itertools.chain(*batches))] if together else batches:
        folding.take(*batch)
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.requests == 1
    assert window.counts.outcomes == {
        "copied": {"shop": (1, 0)},
        "pastes": {"shop": (1, 3 * MICROS)},
        "stars": {"shop": (1, 4_500_000)},
    }


def test_each_producer_has_its_own_value_of_a_request(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, BY_ID)
    folding.take(feedback("a", T0_US + MICROS, number=1, producer="app", value=0.0))
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.outcomes == {"copied": {"app": (1, 0), "shop": (1, MICROS)}}


def test_a_request_counts_once_where_it_arrived_whichever_record_came_first(
    folding: Folding, features: SqliteFeatures
) -> None:
    late = finished(4, 2, T0_US + 4 * MICROS, T0_US + 11 * MICROS)
    folding.take(late, FINISHED, ARRIVED)
    folding.take(arrived(3, 2, T0_US + 4 * MICROS), late)
    windows = features.windows("chat", from_us=0, to_us=2**62)
    counted = {w.key.start_us: w.counts.requests for w in windows if w.counts.requests}
    assert counted == {T0_US: 2}


def test_an_outcome_belongs_to_the_stamp_its_request_arrived_under(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, feedback("late", T0_US + HOUR_US, number=1))
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.key.digest == ARRIVED.stamp.digest
    assert window.key.start_us == T0_US


def test_a_reused_external_id_goes_to_the_latest_request_before_the_feedback(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(
        arrived(0, 1, T0_US, external_id="x"),
        arrived(1, 2, T0_US + 10 * MICROS, external_id="x"),
        arrived(2, 3, T0_US + 20 * MICROS, external_id="x"),
        feedback("f", T0_US + 15 * MICROS, external_id="x"),
        feedback("g", T0_US - 15 * MICROS, external_id="x"),
    )
    assert [len(values(features, number)) for number in (1, 2, 3)] == [1, 1, 0]


def test_feedback_after_the_metrics_own_time_is_a_dead_letter(
    folding: Folding, features: SqliteFeatures
) -> None:
    at_us = T0_US + HOUR_US
    folding.take(
        ARRIVED,
        feedback("in", at_us, number=1, name="stars", value=4.0),
        feedback("out", at_us + 1, number=1, name="stars", value=4.0),
    )
    assert values(features) == [("stars", 4.0)]
    assert [dead.reason for dead in features.dead_letters()] == ["outside_attribution"]


def test_an_orphan_that_nobody_claims_for_a_week_is_a_dead_letter(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(BY_ID)
    folding.take(feedback("n", T0_US + 6 * 24 * HOUR_US, number=2))
    folding.prune()
    assert features.orphans_waiting() == 2
    folding.take(feedback("m", T0_US + 7 * 24 * HOUR_US + 3 * MICROS, number=3))
    folding.prune()
    assert [(dead.event_id, dead.reason) for dead in features.dead_letters()] == [
        ("a", "orphan_expired")
    ]
    assert features.orphans_waiting() == 2


def test_what_cannot_be_decoded_or_is_not_declared_any_more_is_a_dead_letter(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(ARRIVED, feedback("gone", T0_US, number=1, name="retired"))
    FeatureStage(folding.store, rules()).advance(
        [Entry(offset=3, key="chat", body=b"{oops", producer="shop", accepted_us=T0_US)]
    )
    assert [dead.reason for dead in features.dead_letters()] == [
        "undeclared_metric",
        "undecodable",
    ]
    assert features.bus_offset() == 3
    assert features.producers()["shop"].dead == 2


def test_the_stage_goes_on_where_it_stopped_and_two_never_write(
    path: Path, features: SqliteFeatures
) -> None:
    first = Folding(path)
    first.take(ARRIVED, BY_ID)
    assert features.bus_offset() == 2
    first.close()
    second_run = Folding(path)
    assert second_run.store.position.bus_offset == 2
    second_run.take(FINISHED, BY_ID)
    assert values(features) == [("copied", 1.0)]
    # The position is compared too: a file that was put back is not written on.
    second_run.store.position = type(second_run.store.position)(1, 0, 0)
    with pytest.raises(Fenced, match="taken over"):
        second_run.take(second(5, T0_US + 9 * MICROS))
    assert features.bus_offset() == 4
    second_run.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_an_id_that_only_one_of_a_requests_records_tells_is_joined_by_in_any_order(
    folding: Folding, features: SqliteFeatures, order: tuple[int, ...]
) -> None:
    """``stars`` of the same producer are there by the request's own id when the other ids come."""
    at_us = T0_US + 2 * MICROS
    events: list[Signal | Record] = [
        arrived(0, 1, T0_US, session_id="s"),
        finished(1, 1, T0_US, T0_US + MICROS, external_id="order-7"),
        feedback("later", at_us + 1, external_id="order-7", name="stars", value=4.0),
        feedback("first", at_us, number=1, name="stars", value=2.0),
    ]
    for place in order:
        folding.take(events[place])
    folding.take(feedback("by session", at_us, session_id="s"), second(2, T0_US + 90 * MICROS))
    assert features.orphans_waiting() == 0
    assert sorted(values(features)) == [("copied", 1.0), ("stars", 2.0), ("stars", 4.0)]
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.requests]
    assert window.counts.outcomes == {
        "copied": {"shop": (1, MICROS)},
        "stars": {"shop": (1, 4 * MICROS)},
    }


def test_what_adds_up_beyond_what_a_column_holds_is_held_to_its_bounds(
    path: Path, features: SqliteFeatures
) -> None:
    most = 1e12
    metrics = {"tokens": MetricSettings(type="count", low=0, high=most)}
    stage_rules = replace(rules(), definitions=StaticDefinitions(metrics))
    said = [feedback(f"t{n}", T0_US, number=1, name="tokens", value=most) for n in range(25)]
    with closing(FeatureStore(path)) as store:
        FeatureStage(store, stage_rules).advance(entries([ARRIVED, *said]))
    assert features.dead_letters() == []
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.outcomes == {"tokens": {"shop": (1, round(most) * MICROS)}}


def test_of_very_much_feedback_that_waits_none_is_left_behind(
    folding: Folding, features: SqliteFeatures
) -> None:
    count = 2 * ORPHAN_MATCHES + 100
    folding.take(
        *(
            feedback(f"p{n}", T0_US, external_id="order-7", name="pastes", value=0.25)
            for n in range(count)
        )
    )
    for event in (ARRIVED, FINISHED, BY_EXTERNAL):
        folding.take(event)
    assert features.orphans_waiting() == 0
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.requests]
    assert window.counts.outcomes["pastes"] == {"shop": (1, count * MICROS // 4)}
