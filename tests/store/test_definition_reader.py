"""Definitions read from another process: no older than the cache, a new version at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller import definition_reader
from controller.definition_reader import MAX_CACHE_S, StoreDefinitions
from controller.store.address import StoreAddress
from controller.store.sql import SqlStore
from signals.definitions import Definition
from signals.errors import Rejected, Unavailable
from signals.settings import MetricSettings
from tests.store.samples import NOW_US


class Clock:
    """Stands until it is moved. Seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def declared(store: SqlStore, high: float, name: str = "stars") -> Definition:
    with store.write() as tx:
        metric = MetricSettings(high=high)
        return tx.declare(name, metric, managed_by="api", actor="ann", at_us=NOW_US)


def retired(store: SqlStore) -> None:
    with store.write() as tx:
        tx.retire("stars", actor="ann", at_us=NOW_US)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_change_is_followed_when_the_cache_is_over_and_not_before(
    store: SqlStore, address: StoreAddress, clock: Clock
) -> None:
    first = declared(store, 1.0)
    definitions = StoreDefinitions(address, cache_s=2.0, mono=clock)
    assert definitions.current() == {"stars": first}
    second = declared(store, 5.0)
    clock.now_s = 1.99
    assert definitions.current() == {"stars": first}
    clock.now_s = 2.0
    assert definitions.current() == {"stars": second}
    retired(store)
    clock.now_s = 4.0
    assert definitions.current() == {}
    definitions.close()


def test_a_version_made_a_moment_ago_is_read_at_once(
    store: SqlStore, address: StoreAddress, clock: Clock
) -> None:
    first = declared(store, 1.0)
    definitions = StoreDefinitions(address, cache_s=5.0, mono=clock)
    assert definitions.current()["stars"].version == 1
    second = declared(store, 5.0)
    assert definitions.version("stars", 2) == second
    assert definitions.current()["stars"] == first
    assert definitions.version("stars", 1) == first
    assert definitions.version("stars", 3) is definitions.version("other", 1) is None
    declared(store, 7.0)
    found = definitions.version("stars", 3)
    assert found is not None
    assert found.metric.high == 7.0
    definitions.close()


def test_an_old_and_a_retired_version_can_be_read_without_having_been_current(
    store: SqlStore, address: StoreAddress
) -> None:
    declared(store, 1.0)
    declared(store, 5.0)
    retired(store)
    definitions = StoreDefinitions(address)
    highs = [definitions.version("stars", version) for version in (1, 2)]
    assert [one.metric.high for one in highs if one is not None] == [1.0, 5.0]
    assert definitions.current() == {}
    definitions.close()


def test_the_mapping_is_the_same_one_as_long_as_nothing_changed(
    store: SqlStore, address: StoreAddress, clock: Clock
) -> None:
    declared(store, 1.0)
    definitions = StoreDefinitions(address, mono=clock)
    first = definitions.current()
    clock.now_s = 60.0
    assert definitions.current() is first
    definitions.close()


def test_without_a_store_definitions_are_unavailable_and_not_none_at_all(path: Path) -> None:
    definitions = StoreDefinitions(path)
    with pytest.raises(Unavailable):
        definitions.current()
    with pytest.raises(Unavailable):
        definitions.version("stars", 1)


def test_what_was_read_holds_while_the_store_is_away(
    store: SqlStore, path: Path, clock: Clock
) -> None:
    first = declared(store, 1.0)
    definitions = StoreDefinitions(path, mono=clock)
    assert definitions.current() == {"stars": first}
    store.close()
    definitions.close()
    aside = path.rename(path.with_name("aside.db"))
    clock.now_s = 60.0
    assert definitions.current() == {"stars": first}
    assert definitions.version("stars", 1) == first
    with pytest.raises(Unavailable):
        definitions.version("stars", 2)
    aside.rename(path)
    clock.now_s = 120.0
    again = SqlStore(path)
    changed = declared(again, 3.0)
    assert definitions.current() == {"stars": changed}
    again.close()
    definitions.close()


def test_versions_that_are_remembered_have_a_bound(
    store: SqlStore, address: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_reader, "MAX_VERSIONS", 8)
    definitions = StoreDefinitions(address, cache_s=0)
    with store.write() as tx:
        for number in range(20):
            metric = MetricSettings(high=1.0 + number)
            tx.declare("stars", metric, managed_by="api", actor="ann", at_us=NOW_US)
    for version in range(1, 21):
        found = definitions.version("stars", version)
        assert found is not None
        assert found.metric.high == version
    assert len(definitions._versions) == 8
    definitions.close()


@pytest.mark.parametrize("cache_s", [-1.0, MAX_CACHE_S + 0.1])
def test_a_cache_may_be_five_seconds_old_at_most(path: Path, cache_s: float) -> None:
    with pytest.raises(Rejected) as refused:
        StoreDefinitions(path, cache_s=cache_s)
    assert refused.value.allowed == "0..5 s"
