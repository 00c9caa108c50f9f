"""What ingest accepts, the feature stage can fold: the bounds of the one suit the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from signals.events import IntentLoad, Record, SeenTrial
from signals.features.reader import SqliteFeatures
from tests.signals import making
from tests.signals.making import T0_US, Folding, request_id
from tests.signals.posted_events import about, counted, event, named, posted, score
from tests.signals.posting import Ingest

EDGES = (0, 1, 2**31, 2**53, 2**60, 2**63 - 1, 2**64, -1, -(2**53))
TRIAL = SeenTrial(id="t1", block=1, arm="candidate")
RECORDS: tuple[Record, ...] = (
    making.arrived(2, 1, T0_US, by=making.stamp(trial=TRIAL)),
    making.finished(3, 1, T0_US - 9, T0_US),
    making.second(4, T0_US, live=IntentLoad(arrivals=1)),
    making.started(5, T0_US),
    counted(),
    named(),
)


def numbers_in(document: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The paths of every whole number."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inside:
        if isinstance(value, dict | list):
            yield from numbers_in(value, *path, key)
        elif type(value) is int:
            yield (*path, key)


def with_edges(record: Record) -> Iterator[dict[str, Any]]:
    """The record as posted, again and again with one number at an edge."""
    encoded = msgspec.json.encode(posted(record))
    for path in list(numbers_in(msgspec.json.decode(encoded)["data"])):
        for edge in EDGES:
            changed = msgspec.json.decode(encoded)
            place = changed["data"]
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = edge
            yield changed


def test_every_record_that_is_accepted_with_a_number_at_an_edge_is_counted(tmp_path: Path) -> None:
    ingest, number = Ingest(), 0
    for record in RECORDS:
        for changed in with_edges(record):
            number += 1
            stamp = changed["data"]["stamp"]
            stamp["incarnation"] = f"i{number}"
            if "request_id" in changed["data"]:
                changed["data"]["request_id"] = request_id(number)
            changed["id"] = f"r0.i{number}.{changed['data']['seq']}"
            assert ingest.post(changed).status_code in (202, 422)
    assert_folds(tmp_path, ingest, at_least=250)


def test_feedback_with_values_at_the_edges_of_its_metric_is_counted(tmp_path: Path) -> None:
    ingest = Ingest()
    ingest.post(posted(making.arrived(2, 1, T0_US, external_id="x1")))
    for number, value in enumerate((-0.0, 5e-324, 1e-7, 4.9999999999, 5)):
        ingest.post(event(id=f"v{number}", name="stars", value=value))
        ingest.post(about(id=f"x{number}", name="stars", value=value, external_id="x1"))
        ingest.post(about(id=f"s{number}", name="stars", value=value, session_id="s1"))
        ingest.post(score(id=f"m{number}", value=value - 10, model=f"m{number}"))
    assert_folds(tmp_path, ingest, at_least=21)


def assert_folds(folder: Path, ingest: Ingest, *, at_least: int) -> None:
    """Every signal that reached the bus is folded without a dead letter."""
    signals = ingest.arrived()
    assert len(signals) >= at_least
    folding = Folding(folder / "features.db")
    folding.take_all(signals, Random(1))
    folding.close()
    features = SqliteFeatures(folder / "features.db")
    letters = features.dead_letters(limit=10)
    features.close()
    assert letters == []
