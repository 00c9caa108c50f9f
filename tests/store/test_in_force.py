"""From REST's definition to the outcome: ingest, bus and feature stage over one real store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controller.definition_reader import StoreDefinitions
from controller.definitions import declare, retire
from controller.store.address import StoreAddress
from controller.store.port import Principal
from controller.store.sql import SqlStore
from signals.bus.port import Message
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.codec import encode
from signals.definitions import Definition
from signals.events import MICROS
from signals.features.change import FeatureRules
from signals.features.follower import Follower
from signals.features.reader import SqliteFeatures
from signals.ingest.app import make_app
from signals.settings import FeatureSettings, IngestSettings, MetricSettings
from tests.signals.making import INTENTS, T0_US, arrived, basic, request_id
from tests.signals.processes import KEYS

SHOP = {"Authorization": "Bearer shop-key"}
ADMIN = Principal(id="key_ann", name="ann", role="admin", targets=("*",))
HOUR_S = 3600


class Line:
    """Serve's store, ingest with its own reader of it, the stage with another: one clock."""

    def __init__(self, folder: Path, store: SqlStore, address: StoreAddress) -> None:
        self.now_us = T0_US
        self.store = store
        self.of_ingest = StoreDefinitions(address, cache_s=1.0, mono=self.seconds)
        self.of_stage = StoreDefinitions(address, cache_s=5.0, mono=self.seconds)
        self.bus = SqliteBus(folder / "bus")
        self.reader = SqliteBusReader(folder / "bus")
        app = make_app(
            bus=self.bus,
            keys=KEYS,
            definitions=self.of_ingest,
            targets=INTENTS.keys(),
            settings=IngestSettings(),
            clock=lambda: self.now_us,
        )
        self.http = TestClient(app, headers=SHOP)
        self.features = SqliteFeatures(folder / "features.db")
        self.follower = Follower(self.reader, folder / "features.db", self.rules())

    def rules(self) -> FeatureRules:
        return FeatureRules(intents=INTENTS, definitions=self.of_stage, settings=FeatureSettings())

    def seconds(self) -> float:
        return self.now_us / MICROS

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * MICROS)

    def declared(self, **fields: Any) -> Definition:
        with self.store.write() as tx:
            metric = MetricSettings.model_validate({"type": "float", **fields})
            return declare(tx, "stars", metric, by=ADMIN, at_us=self.now_us, most=9)

    def post(self, id_: str, value: float) -> Any:
        event = {
            "id": id_,
            "kind": "business",
            "time": datetime.fromtimestamp(self.now_us / MICROS, UTC).isoformat(),
            "name": "stars",
            "value": value,
            "request_id": request_id(1),
        }
        return self.http.post("/v1/signals", json=event).json()

    def requested(self) -> None:
        signal = basic(arrived(0, 1, T0_US))
        message = Message(
            key=signal.target,
            body=encode(signal),
            producer=signal.producer,
            accepted_us=self.now_us,
        )
        self.bus.append([message]).result(10)

    def settle(self) -> None:
        self.follower.step()
        while self.features.bus_offset() < self.reader.end():
            self.follower.step()

    def outcomes(self) -> dict[str, tuple[int, float]]:
        found = self.features.outcomes(request_id(1))
        return {one.event_id: (one.definition, one.value) for one in found}

    def close(self) -> None:
        self.follower.end()
        for each in (self.http, self.features, self.reader, self.bus):
            each.close()
        for definitions in (self.of_ingest, self.of_stage):
            definitions.close()


@pytest.fixture
def line(tmp_path: Path, store: SqlStore, address: StoreAddress) -> Iterator[Line]:
    made = Line(tmp_path, store, address)
    yield made
    made.close()


def test_an_event_accepted_under_one_version_is_read_under_it_after_a_change(line: Line) -> None:
    line.declared(high=5.0, attribution_s=HOUR_S)
    line.requested()
    line.wait(120)
    assert line.post("old", 5)["accepted"] == 1
    line.declared(high=2.0, attribution_s=60)
    line.wait(5)
    assert line.post("new", 5)["refused"][0]["field"] == "value"
    assert line.post("late", 2)["accepted"] == 1
    line.settle()
    assert line.outcomes() == {"old": (1, 5.0)}
    (dead,) = line.features.dead_letters()
    assert (dead.event_id, dead.reason) == ("late", "outside_attribution")
    assert "60 s" in dead.detail


def test_the_stage_reads_by_a_version_that_is_newer_than_its_cache(line: Line) -> None:
    line.declared(high=1.0)
    line.requested()
    line.settle()
    assert line.of_stage.current() == line.of_ingest.current()
    line.declared(high=5.0)
    assert line.post("too much", 5)["refused"]
    line.wait(1)
    assert line.of_stage.current()["stars"].version == 1
    assert line.post("five", 5)["accepted"] == 1
    line.settle()
    assert line.outcomes() == {"five": (2, 5.0)}


def test_events_of_a_retired_metric_are_refused_and_those_accepted_before_are_still_read(
    line: Line,
) -> None:
    line.declared(high=5.0)
    line.requested()
    assert line.post("before", 4)["accepted"] == 1
    with line.store.write() as tx:
        retire(tx, "stars", by=ADMIN, at_us=line.now_us)
    line.wait(5)
    refused = line.post("after", 4)["refused"][0]
    assert refused["field"] == "name"
    line.settle()
    assert line.outcomes() == {"before": (1, 4.0)}


def test_a_replay_a_week_later_reads_every_event_as_it_was_read_first(
    line: Line, tmp_path: Path
) -> None:
    line.declared(high=5.0)
    line.requested()
    line.post("first", 5)
    line.declared(high=2.0)
    line.wait(5)
    line.post("second", 1)
    line.settle()
    before = line.outcomes()
    assert before == {"first": (1, 5.0), "second": (2, 1.0)}
    with line.store.write() as tx:
        retire(tx, "stars", by=ADMIN, at_us=line.now_us)
    line.wait(604_800)
    line.follower.end()
    line.features.close()
    line.features = SqliteFeatures(tmp_path / "again.db")
    line.follower = Follower(line.reader, tmp_path / "again.db", line.rules())
    line.settle()
    assert line.outcomes() == before
