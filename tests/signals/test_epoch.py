"""Who opens a features file owns it; whoever had it before can write nothing any more."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from signals.errors import Fenced
from signals.events import MICROS
from signals.features import schema
from signals.features.reader import SqliteFeatures
from signals.features.store import FeatureStore
from tests.signals.making import T0_US, Folding, second


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
