"""What the controller reads, and what it is told when there is nothing to read."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from signals.errors import Broken, Unavailable
from signals.events import MICROS, SeenTrial
from signals.features.model import Features
from signals.features.reader import SqliteFeatures
from signals.features.store import FeatureStore
from tests.signals.making import T0_US, Folding, arrived, finished, request_id, second, stamp


def test_it_is_what_the_controller_asks_for(features: SqliteFeatures) -> None:
    as_port: Features = features
    assert as_port is features


def test_before_the_stage_ran_it_is_unavailable_and_then_it_works(
    path: Path, features: SqliteFeatures
) -> None:
    with pytest.raises(Unavailable, match="does not exist yet"):
        features.watermark_us("chat")
    folding = Folding(path)
    assert features.watermark_us("chat") == 0
    assert features.revisions(after=0) == []
    assert features.request(request_id(1)) is None
    assert features.engines("chat") == []
    folding.close()


def test_another_schema_is_not_read_nor_written(path: Path, features: SqliteFeatures) -> None:
    Folding(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(Unavailable, match="schema 99"):
        features.bus_offset()
    with pytest.raises(Broken, match="schema 99"):
        FeatureStore(path)


def test_a_reader_cannot_write(path: Path, folding: Folding, features: SqliteFeatures) -> None:
    folding.take(second(0, T0_US))
    with pytest.raises(Unavailable, match="readonly"):
        features._rows("DELETE FROM seconds")
    assert len(features.seconds("chat", from_us=0, to_us=2**62)) == 1


def test_trial_rows_come_by_block_and_in_order(folding: Folding, features: SqliteFeatures) -> None:
    def block(number: int) -> SeenTrial:
        return SeenTrial(id="t", block=number, arm="candidate")

    for seq, (number, at_s) in enumerate([(1, 9), (0, 5), (0, 3), (1, 8)]):
        at_us = T0_US + at_s * MICROS
        by = stamp(trial=block(number))
        folding.take(arrived(2 * seq, seq, at_us, by=by), second(2 * seq + 1, at_us, by=by))
    folding.take(arrived(8, 9, T0_US))
    everything = features.trial_requests("t")
    assert [row.arrival_us - T0_US for row in everything] == [s * MICROS for s in (3, 5, 8, 9)]
    assert [row.block for row in features.trial_requests("t", block=0)] == [0, 0]
    assert [row.to_us - T0_US for row in features.trial_seconds("t", block=1)] == [
        8 * MICROS,
        9 * MICROS,
    ]
    assert features.trial_requests("") == []
    assert everything[0].arm == "candidate"


def test_seconds_end_after_from_and_up_to_to(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(*(second(seq, T0_US + seq * MICROS) for seq in range(4)))
    found = features.seconds("chat", from_us=T0_US, to_us=T0_US + 2 * MICROS)
    assert [row.to_us - T0_US for row in found] == [MICROS, 2 * MICROS]
    assert found[0].knobs == {"active_cap": 8}
    assert features.seconds("other", from_us=0, to_us=2**62) == []


def test_requests_are_found_newest_first(folding: Folding, features: SqliteFeatures) -> None:
    folding.take(
        finished(0, 0, T0_US, T0_US + MICROS),
        finished(1, 1, T0_US + 1, T0_US + MICROS, status="error"),
        finished(2, 2, T0_US + 2, T0_US + MICROS, intent="batch"),
        arrived(3, 3, T0_US + 3),
    )

    def found(**what: object) -> list[int]:
        rows = features.find_requests("chat", **what)  # type: ignore[arg-type]
        return [row.arrival_us - T0_US for row in rows]

    assert found() == [3, 2, 1, 0]
    assert found(limit=2) == [3, 2]
    assert found(good=False) == [1]
    assert found(good=True) == [2, 0]
    assert found(intent="batch") == [2]
    assert found(good=False, intent="batch") == []


def test_many_threads_may_read_while_the_stage_writes(
    folding: Folding, features: SqliteFeatures
) -> None:
    failures: list[Unavailable] = []
    counts: list[int] = []

    def read() -> None:
        try:
            for _ in range(100):
                counts.append(len(features.seconds("chat", from_us=0, to_us=2**62)))
        except Unavailable as unavailable:
            failures.append(unavailable)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for seq in range(50):
        folding.take(second(seq, T0_US + seq * MICROS))
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(counts) == 400
    assert len(features.seconds("chat", from_us=0, to_us=2**62)) == 50
