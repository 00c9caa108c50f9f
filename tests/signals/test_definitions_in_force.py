"""An event is read by the version of its metric that was in force when it was accepted."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from signals.definitions import Definition
from signals.events import MICROS, SeenTrial
from signals.features.change import FeatureRules
from signals.features.reader import SqliteFeatures
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore
from signals.settings import FeatureSettings, MetricSettings
from tests.signals.making import INTENTS, T0_US, arrived, entries, feedback, request_id, stamp
from tests.signals.on_the_bus import commanded, replay

HOUR_US = 3600 * MICROS


class Versions:
    """Definitions with a history."""

    def __init__(self, *versions: Definition) -> None:
        self.all = {(each.name, each.version): each for each in versions}

    def current(self) -> Mapping[str, Definition]:
        latest = {name: each for (name, _), each in sorted(self.all.items())}
        return {name: each for name, each in latest.items() if each.retired_us is None}

    def version(self, name: str, version: int) -> Definition | None:
        return self.all.get((name, version))


def definition(name: str, version: int, *, hours: int, retired: bool = False) -> Definition:
    return Definition(
        name=name,
        version=version,
        metric=MetricSettings(attribution_s=hours * 3600),
        managed_by="api",
        from_us=0,
        retired_us=T0_US if retired else None,
    )


def count_of(version: int, metric: MetricSettings) -> Definition:
    return Definition(name="pastes", version=version, metric=metric, managed_by="api", from_us=0)


@pytest.fixture
def versions() -> Versions:
    return Versions(
        definition("copied", 1, hours=1),
        definition("copied", 2, hours=3),
        definition("old", 1, hours=1, retired=True),
    )


def take(path: Path, versions: Versions, *events: object) -> None:
    store = FeatureStore(path)
    rules = FeatureRules(intents=INTENTS, definitions=versions, settings=FeatureSettings())
    try:
        first = store.position.bus_offset + 1
        FeatureStage(store, rules).advance(entries(events, first=first))  # type: ignore[arg-type]
    finally:
        store.close()


ARRIVED = arrived(0, 1, T0_US)


def test_each_event_has_the_attribution_of_its_own_version(
    path: Path, features: SqliteFeatures, versions: Versions
) -> None:
    at_us = T0_US + 2 * HOUR_US
    take(
        path,
        versions,
        ARRIVED,
        feedback("before", at_us, number=1, definition=1),
        feedback("after", at_us, number=1, definition=2),
        feedback("unsaid", at_us, number=1),
        feedback("retired", T0_US, number=1, name="old", definition=1),
    )
    found = {each.event_id: each.definition for each in features.outcomes(request_id(1))}
    assert found == {"after": 2, "unsaid": 2, "retired": 1}
    (dead,) = features.dead_letters()
    assert (dead.event_id, dead.reason) == ("before", "outside_attribution")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_sum_is_held_to_the_bounds_that_its_last_event_was_read_by(
    path: Path, features: SqliteFeatures, order: tuple[int, ...]
) -> None:
    wide, narrow = (MetricSettings(type="count", low=0, high=high) for high in (20, 5))
    versions = Versions(*(count_of(n, metric) for n, metric in ((1, wide), (2, narrow), (3, wide))))
    events = [
        feedback(f"e{n}", T0_US + n, number=1, name="pastes", value=5, definition=version)
        for n, version in enumerate((1, 2, 3, 2))
    ]
    take(path, versions, ARRIVED)
    for index in order[:3]:
        take(path, versions, events[index])
    last = max(order[:3])
    expected = 5 if events[last].definition == 2 else 15
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.outcomes == {"pastes": {"shop": (1, expected * MICROS)}}
    take(path, versions, events[order[3]])
    (window,) = [w for w in features.windows("chat", from_us=0, to_us=2**62) if w.counts.outcomes]
    assert window.counts.outcomes == {"pastes": {"shop": (1, 5 * MICROS)}}


def test_a_version_that_is_gone_is_not_waited_for_and_a_replay_finds_it_when_it_is_back(
    path: Path, features: SqliteFeatures, versions: Versions
) -> None:
    event = feedback("new", T0_US, number=1, definition=3)
    take(path, versions, ARRIVED, event)
    (letter,) = features.dead_letters()
    assert letter.reason == "undeclared_metric"
    assert "version 3 of copied" in letter.detail
    versions.all["copied", 3] = definition("copied", 3, hours=1)
    take(path, versions, commanded("again", replay(letter.offset)))
    assert [each.definition for each in features.outcomes(request_id(1))] == [3]
    assert features.dead_letters() == []


def test_a_metric_that_never_was_is_a_dead_letter(
    path: Path, features: SqliteFeatures, versions: Versions
) -> None:
    take(path, versions, ARRIVED, feedback("x", T0_US, number=1, name="never", definition=1))
    take(path, versions, feedback("y", T0_US, number=1, name="old"))
    assert [dead.reason for dead in features.dead_letters()] == ["undeclared_metric"] * 2


def test_an_outcome_says_what_its_request_arrived_under(
    path: Path, features: SqliteFeatures, versions: Versions
) -> None:
    trial = SeenTrial(id="t7", block=3, arm="candidate")
    by = stamp(digest="d9", trial=trial, policies=("p1", "p2"))
    take(path, versions, arrived(0, 1, T0_US, by=by), feedback("f", T0_US, number=1))
    (outcome,) = features.outcomes(request_id(1))
    assert (outcome.intent, outcome.digest, outcome.policies) == ("live", "d9", ("p1", "p2"))
    assert (outcome.trial, outcome.block, outcome.arm) == ("t7", 3, "candidate")
    assert (outcome.producer, outcome.definition) == ("shop", 2)
