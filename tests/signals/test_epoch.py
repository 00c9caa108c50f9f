"""Who opens a features file owns it; whoever had it before can write nothing any more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from signals.codec import encode
from signals.errors import Fenced, Unavailable
from signals.events import MICROS
from signals.features import schema
from signals.features.reader import SqliteFeatures
from signals.features.store import FeatureStore
from signals.settings import MetricSettings
from tests.signals.making import (
    METRICS,
    T0_US,
    Folding,
    arrived,
    feedback,
    request_id,
    second,
)
from tests.signals.on_the_bus import OnTheBus, accounted, replay


def test_each_opening_raises_the_epoch_and_keeps_the_position(path: Path) -> None:
    first = Folding(path)
    first.take(second(0, T0_US))
    first.close()
    later = FeatureStore(path)
    assert later.epoch == first.store.epoch + 1
    assert later.position.bus_offset == 1
    later.close()


def test_an_earlier_owner_can_neither_commit_nor_prune(
    path: Path, features: SqliteFeatures
) -> None:
    earlier = Folding(path)
    earlier.take(second(0, T0_US))
    owner = Folding(path)
    with pytest.raises(Fenced, match="epoch 1"):
        earlier.take(second(1, T0_US + MICROS))
    with pytest.raises(Fenced):
        earlier.prune()
    owner.take(second(1, T0_US + MICROS))
    assert len(features.seconds("chat", from_us=0, to_us=2**62)) == 2
    assert features.bus_offset() == 2
    earlier.close()
    owner.close()


def test_a_file_of_the_first_version_is_brought_up_to_date_with_what_it_holds(
    path: Path, features: SqliteFeatures
) -> None:
    with sqlite3.connect(path) as old:
        old.executescript(schema._VERSION_1)
        old.execute("UPDATE position SET bus_offset = 7, accepted_us = 9, cursor = 5")
        old.execute("INSERT INTO watermarks VALUES ('chat', 3)")
        old.execute("PRAGMA user_version = 1")
    old.close()
    store = FeatureStore(path)
    assert (store.epoch, store.position.bus_offset, store.position.cursor) == (1, 7, 5)
    assert features.watermark_us("chat") == 3
    store.close()


def test_letters_orphans_and_counts_of_an_older_file_can_be_worked_with(tmp_path: Path) -> None:
    liked = feedback("a", T0_US, number=1, name="liked")
    orphan = feedback("b", T0_US, number=2)
    with closing(sqlite3.connect(tmp_path / "features.db")) as old, old:
        for script in (schema._VERSION_1, schema._VERSION_2):
            old.executescript(script)
        letter = (1, "chat", "shop", "a", "undeclared_metric", "", T0_US, encode(liked))
        old.execute("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?)", letter)
        waiting = (2, "chat", orphan.request_id, None, T0_US, encode(orphan).decode())
        old.execute("INSERT INTO orphans VALUES (?, ?, ?, ?, ?, ?)", waiting)
        counts = '{"events":5,"joined":2,"orphaned":1,"duplicate":1,"dead":1,"last_us":9}'
        old.execute("INSERT INTO producers VALUES ('shop', ?)", (counts,))
        old.execute("PRAGMA user_version = 2")
    line = OnTheBus(tmp_path, metrics={**METRICS, "liked": MetricSettings()})
    line.take(arrived(0, 1, T0_US))
    report = line.features.producers()["shop"]
    assert (report.events, report.joined, report.duplicate, report.dead) == (5, 2, 1, 1)
    assert (report.waiting, report.last_us) == (1, 9)
    assert line.features.dead_letter_counts() == {"undeclared_metric": 1}
    assert line.order(replay(1)).done == 1
    assert [each.event_id for each in line.features.outcomes(request_id(1))] == ["a"]
    assert line.features.orphans_by_producer() == {"shop": 1}
    accounted(line)
    line.close()


def test_an_owner_that_stands_still_inside_a_transaction_holds_the_file_until_it_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one thing an epoch can't do; SQLite's lock goes with the process that holds it."""
    monkeypatch.setattr(schema, "BUSY_S", 0.05)
    earlier = Folding(path)
    earlier.store._db.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        FeatureStore(path)
    earlier.close()
    owner = FeatureStore(path)
    assert owner.epoch == 2
    owner.close()
