"""Windows as they are published: open, closed, corrected, incomplete, and minutes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from signals.events import MICROS, IntentLoad, Record, SeenTrial
from signals.features.model import WindowRevision
from signals.features.reader import SqliteFeatures
from signals.features.sequences import Sequence
from signals.features.windows import merge
from tests.signals.making import (
    KV,
    T0_US,
    Folding,
    arrived,
    feedback,
    finished,
    second,
    stamp,
    started,
)

LATE_US = 30 * MICROS


def live(features: SqliteFeatures, width_s: int = 5) -> dict[int, WindowRevision]:
    """Windows of intent ``live`` by their start in s after T0."""
    return {
        (window.key.start_us - T0_US) // MICROS: window
        for window in features.windows("chat", from_us=0, to_us=2**62, width_s=width_s)
        if window.key.intent == "live"
    }


def test_a_window_is_published_open_then_closed_then_corrected(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(finished(0, 1, T0_US, T0_US + MICROS))
    window = live(features)[0]
    assert (window.revision, window.closed, window.counts.completed) == (0, False, 1)
    folding.take(finished(1, 2, T0_US, T0_US + 2 * MICROS))
    assert live(features)[0].revision == 0
    folding.take(second(2, T0_US + 5 * MICROS + LATE_US - 1))
    assert not live(features)[0].closed
    folding.take(second(3, T0_US + 5 * MICROS + LATE_US))
    window = live(features)[0]
    assert (window.revision, window.closed, window.counts.completed) == (1, True, 2)
    folding.take(feedback("late", T0_US + 3 * MICROS, number=1))
    window = live(features)[0]
    assert (window.revision, window.closed) == (2, True)
    assert window.counts.outcomes == {"copied": {"shop": (1, MICROS)}}


def test_cursors_rise_and_each_window_is_given_in_its_latest_state(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(finished(0, 1, T0_US, T0_US + MICROS))
    first = features.revisions(after=0)
    folding.take(finished(1, 2, T0_US, T0_US + 2 * MICROS))
    later = features.revisions(after=first[-1].cursor)
    assert [window.counts.completed for window in later] == [2]
    assert later[0].cursor > first[-1].cursor
    assert features.revisions(after=later[-1].cursor) == []
    everything = features.revisions(after=0)
    assert len({window.key for window in everything}) == len(everything)
    assert [w.cursor for w in everything] == sorted(w.cursor for w in everything)
    assert len(features.revisions(after=0, limit=1)) == 1


def test_nothing_is_published_when_nothing_changed(
    folding: Folding, features: SqliteFeatures
) -> None:
    same = finished(0, 1, T0_US, T0_US + MICROS)
    folding.take(same)
    cursor = features.revisions(after=0)[-1].cursor
    folding.take(same)
    assert features.revisions(after=cursor) == []


def test_windows_are_kept_apart_by_replica_intent_digest_and_block(
    folding: Folding, features: SqliteFeatures
) -> None:
    trial = SeenTrial(id="t", block=3, arm="candidate")
    for seq, by in enumerate([stamp(), stamp(digest="d1"), stamp(digest="d1", trial=trial)]):
        folding.take(finished(seq, seq, T0_US, T0_US + MICROS, by=by))
    folding.take(finished(0, 7, T0_US, T0_US + MICROS, by=stamp(replica="r1")))
    folding.take(finished(1, 8, T0_US, T0_US + MICROS, by=stamp(replica="r1"), intent="batch"))
    keys = [window.key for window in features.windows("chat", from_us=0, to_us=2**62)]
    assert sorted((k.replica, k.intent, k.digest, k.trial, k.block) for k in keys) == [
        ("r0", "live", "d0", "", -1),
        ("r0", "live", "d1", "", -1),
        ("r0", "live", "d1", "t", 3),
        ("r1", "batch", "d0", "", -1),
        ("r1", "live", "d0", "", -1),
    ]


def test_seconds_carry_load_and_a_declared_intent_left_out_had_none(
    folding: Folding, features: SqliteFeatures
) -> None:
    load = IntentLoad(arrivals=3, offered_tokens=90, output_tokens=40, waiting=2, running=4)
    later = IntentLoad(arrivals=1, output_tokens=5, waiting=1, running=3)
    folding.take(second(1, T0_US + 2 * MICROS, live=later), second(0, T0_US + MICROS, live=load))
    counts = live(features)[0].counts
    assert (counts.arrivals, counts.offered_tokens, counts.output_tokens) == (4, 90, 45)
    assert counts.covered_us == 2 * MICROS
    assert (counts.waiting, counts.running, counts.kv_blocks_used) == (1, 3, 10)
    assert counts.gauge_us == T0_US + 2 * MICROS
    (batch,) = [
        w for w in features.windows("chat", from_us=0, to_us=2**62) if w.key.intent == "batch"
    ]
    assert (batch.counts.arrivals, batch.counts.covered_us) == (0, 2 * MICROS)


def test_a_second_that_ends_with_a_window_belongs_to_it(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(second(0, T0_US + 5 * MICROS, live=IntentLoad(arrivals=1)))
    assert list(live(features)) == [0]


def test_a_missing_record_makes_its_windows_incomplete_until_it_comes(
    folding: Folding, features: SqliteFeatures
) -> None:
    folding.take(*(second(seq, T0_US + (seq + 1) * MICROS) for seq in (0, 1, 2)))
    folding.take(*(second(seq, T0_US + (seq + 1) * MICROS) for seq in (7, 8, 9, 10, 11)))
    flags = {start: window.incomplete for start, window in live(features).items()}
    assert flags == {0: True, 5: True, 10: False}
    assert features.engines("chat")[0].gaps == 4
    folding.take(*(second(seq, T0_US + (seq + 1) * MICROS) for seq in (3, 4, 5)))
    flags = {start: window.incomplete for start, window in live(features).items()}
    assert flags == {0: False, 5: True, 10: False}
    folding.take(second(6, T0_US + 7 * MICROS))
    assert not any(window.incomplete for window in live(features).values())
    assert features.engines("chat")[0].gaps == 0


def test_a_gap_in_one_replica_says_nothing_about_another(
    folding: Folding, features: SqliteFeatures
) -> None:
    for replica, seqs in (("r0", (0, 2)), ("r1", (0, 1))):
        folding.take(
            *(second(q, T0_US + (q + 1) * MICROS, by=stamp(replica=replica)) for q in seqs)
        )
    windows = features.windows("chat", from_us=0, to_us=2**62)
    assert {(w.key.replica, w.incomplete) for w in windows} == {("r0", True), ("r1", False)}


def test_between_two_incarnations_nothing_is_known_to_be_complete(
    folding: Folding, features: SqliteFeatures
) -> None:
    old, new = stamp(incarnation="a"), stamp(incarnation="b")
    folding.take(*(second(seq, T0_US + (seq + 1) * MICROS, by=old) for seq in range(7)))
    assert not any(window.incomplete for window in live(features).values())
    folding.take(started(0, T0_US + 12 * MICROS, by=new))
    folding.take(second(1, T0_US + 13 * MICROS, by=new), second(2, T0_US + 16 * MICROS, by=new))
    flags = {start: window.incomplete for start, window in live(features).items()}
    assert flags == {0: False, 5: True, 10: True, 15: False}
    (engine,) = features.engines("chat")
    assert (engine.incarnation, engine.fingerprint, engine.curve) == ("b", "cpu", ((1, 0, 20_000),))
    assert engine.kv == KV


def test_an_engines_records_are_counted_once_however_often_they_are_posted(
    folding: Folding, features: SqliteFeatures
) -> None:
    records: list[Record] = [
        arrived(0, 1, T0_US),
        second(1, T0_US + MICROS, live=IntentLoad(arrivals=1)),
    ]
    folding.take(*records, *records)
    folding.take(*records)
    assert live(features)[0].counts.arrivals == 1
    assert len(features.seconds("chat", from_us=0, to_us=2**62)) == 1
    assert features.producers()["engine"].duplicate == 4


def test_the_watermark_waits_for_the_slowest_live_replica_but_not_for_a_dead_one(
    folding: Folding, features: SqliteFeatures
) -> None:
    for replica, at_s in (("r0", 10), ("r1", 4)):
        folding.take(second(0, T0_US + at_s * MICROS, by=stamp(replica=replica)))
    assert features.watermark_us("chat") == T0_US + 10 * MICROS, "it never goes back"
    folding.take(second(1, T0_US + 12 * MICROS, by=stamp(replica="r1")))
    assert features.watermark_us("chat") == T0_US + 10 * MICROS
    folding.take(second(2, T0_US + 50 * MICROS, by=stamp(replica="r1")))
    assert features.watermark_us("chat") == T0_US + 50 * MICROS
    assert features.watermark_us("nobody") == 0


def test_feedback_never_moves_the_watermark(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(second(0, T0_US), feedback("f", T0_US + 10**9, number=1))
    assert features.watermark_us("chat") == T0_US


def test_a_minute_is_the_merge_of_its_atoms_and_follows_their_corrections(
    folding: Folding, features: SqliteFeatures
) -> None:
    minute_us = T0_US - T0_US % (60 * MICROS) + 60 * MICROS
    for seq in range(60):
        at_us = minute_us + (seq + 1) * MICROS
        folding.take(
            second(2 * seq, at_us, live=IntentLoad(arrivals=seq, waiting=seq)),
            finished(2 * seq + 1, seq, at_us - 700_000, at_us - 1, ttft_us=1000 * (seq + 1)),
        )
    folding.take(second(120, minute_us + 60 * MICROS + LATE_US))
    minute = next(iter(live(features, width_s=60).values()))
    atoms = [w for w in live(features).values() if w.key.start_us < minute_us + 60 * MICROS]
    assert len(atoms) == 12
    assert minute.counts == merge(w.counts for w in reversed(atoms))
    assert (minute.closed, minute.revision, minute.key.start_us) == (True, 1, minute_us)
    assert minute.counts.arrivals == sum(range(60))
    assert minute.counts.waiting == 59
    folding.take(feedback("late", minute_us + MICROS, number=1))
    minute = next(iter(live(features, width_s=60).values()))
    assert minute.revision == 2
    assert minute.counts.outcomes == {"copied": {"shop": (1, MICROS)}}


@pytest.mark.parametrize("limit", [2, 3])
def test_too_many_gaps_give_up_the_oldest_and_say_so(limit: int) -> None:
    seen = Sequence()
    for number in range(0, 20, 2):
        assert seen.add(number, number, limit=limit) == "new"
    assert len(seen.ranges) == limit
    assert seen.add(1, 1, limit=limit) == "forgotten"
    assert seen.add(18, 18, limit=limit) == "duplicate"
    assert sum(hole.missing for hole in seen.holes()) == 9
    assert seen.add(17, 17, limit=limit) == "new"
    assert sum(hole.missing for hole in seen.holes()) == 8


def test_a_forgotten_record_is_a_dead_letter(path: Path, features: SqliteFeatures) -> None:
    folding = Folding(path, sequence_ranges=2)
    folding.take(*(second(seq, T0_US + seq * MICROS) for seq in (0, 2, 4, 6)))
    folding.take(second(1, T0_US + MICROS))
    assert [dead.reason for dead in features.dead_letters()] == ["sequence_forgotten"]
    folding.close()
