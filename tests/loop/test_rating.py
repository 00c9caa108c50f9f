"""Business rates read from the windows that each metric needs, over a real features file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.rating import Rating, Terms
from signals.definitions import StaticDefinitions
from signals.events import MICROS
from signals.features.model import WindowRevision
from signals.features.reader import SqliteFeatures
from signals.settings import FeatureSettings, MetricSettings
from tests.signals.making import T0_US, Folding, feedback, finished, second

HOUR_US = 3600 * MICROS
DAY_US = 24 * HOUR_US
START_US = T0_US - T0_US % HOUR_US + HOUR_US
METRICS = {
    "copied": MetricSettings(attribution_s=7 * 86_400),
    "resent": MetricSettings(attribution_s=600),
}


class Counting(SqliteFeatures):
    """Counts the windows that were read."""

    read = 0

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = 5
    ) -> list[WindowRevision]:
        found = list(super().windows(target, from_us=from_us, to_us=to_us, width_s=width_s))
        self.read += len(found)
        return found


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Folding]:
    made = Folding(tmp_path / "features.db", prune_rows=1000)
    yield made
    made.close()


@pytest.fixture
def features(tmp_path: Path) -> Iterator[Counting]:
    reader = Counting(tmp_path / "features.db")
    yield reader
    reader.close()


def rating(features: SqliteFeatures, **caps: float) -> Rating:
    definitions = StaticDefinitions(METRICS).current()
    return Rating(
        features=features,
        settings=FeatureSettings(),
        terms=lambda: Terms(definitions=definitions, caps=caps),
    )


def a_week(folding: Folding) -> None:
    """Two requests an hour for 170 hours; the first hour's were both copied, days later."""
    seq = 0
    for hour in range(170):
        at_us = START_US + hour * HOUR_US
        for half, intent in enumerate(("live", "batch")):
            number, us = 2 * hour + half, at_us + half * 1800 * MICROS
            end = finished(seq, number, us, us + MICROS, intent=intent)
            folding.take(end, feedback(f"r{number}", us + 2 * MICROS, number=number, name="resent"))
            seq += 1
        folding.take(second(seq, at_us + 3599 * MICROS))
        seq += 1
        folding.prune()
    folding.take(
        feedback("c0", START_US + 6 * DAY_US, number=0),
        feedback("c1", START_US + 6 * DAY_US, number=1, producer="mob"),
    )


def test_a_week_of_attribution_is_read_from_the_hour_of_a_week_ago(
    folding: Folding, features: Counting
) -> None:
    a_week(folding)
    watermark_us = features.watermark_us("chat")
    assert watermark_us == START_US + 170 * HOUR_US - MICROS
    found = rating(features).of("chat", ["live", "batch"], with_open=True)
    week = found["target"]["copied"]
    assert (week.from_us, week.to_us) == (START_US, START_US + HOUR_US)
    assert (week.value, week.closed_requests, week.with_value) == (1.0, 2, 2)
    assert week.open_requests == 340 - 2
    assert found["live"]["copied"].open_requests == 170 - 1
    recent = found["target"]["resent"]
    last_us = START_US + 169 * HOUR_US + 1800 * MICROS
    assert (recent.value, recent.to_us) == (1.0, last_us + 300 * MICROS)
    assert recent.closed_requests == 2
    assert features.read < 30


def test_caps_hold_for_the_target_and_each_intent(folding: Folding, features: Counting) -> None:
    a_week(folding)
    found = rating(features, mob=0.1).of("chat", ["live", "batch"])
    assert found["target"]["copied"].value == pytest.approx(0.5 + 0.1)
    assert found["live"]["copied"].value == 1.0
    assert found["batch"]["copied"].value == pytest.approx(0.1)
    assert found["batch"]["copied"].by_producer["mob"].share == 0.1


def test_before_anything_was_reported_there_are_no_rates(
    features: Counting, folding: Folding
) -> None:
    assert rating(features).of("chat", ["live"]) == {"target": {}, "live": {}}
