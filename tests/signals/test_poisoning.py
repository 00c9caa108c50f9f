"""One producer's key can't move a rate beyond its cap, whatever it posts.

Through the real ingest over HTTP and the real feature stage: honest feedback about every request,
and a rogue that knows their ids and tries what a key lets it try, and what it does not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from signals.bus.sqlite import SqliteBusReader
from signals.definitions import StaticDefinitions
from signals.events import MICROS, Record
from signals.features.model import MINUTE_S, WindowRevision
from signals.features.rates import Rate, rates
from signals.features.reader import SqliteFeatures
from signals.records import record_id, record_name
from tests.signals.making import METRICS, arrived, request_id, second
from tests.signals.processes import eventually, pipeline

CAP = 0.2
REQUESTS = 60
HOUR_US = 3600 * MICROS
HONEST = {"copied": 0.5, "stars": 2.0, "pastes": 3.0}
"""What the shop says of the requests, on average."""

SOON_CLOSED = {
    name: metric.model_copy(update={"attribution_s": 3600}) for name, metric in METRICS.items()
}
"""As if all that is declared closed an hour after a request, so that a cohort of today is one."""

Line = dict[str, Any]


class Attack:
    """A pipeline, a cohort whose attribution closes, and what was posted about it."""

    def __init__(self, folder: Path, client: httpx.Client) -> None:
        self._client = client
        now_us = time.time_ns() // 1000
        self.arrived_us = (now_us - 4 * HOUR_US) // HOUR_US * HOUR_US + HOUR_US // 4
        self.now_us = now_us
        self._folder = folder

    def post(self, key: str, *lines: Line) -> Any:
        answer = self._client.post(
            "/v1/signals",
            content=b"\n".join(msgspec.json.encode(line) for line in lines),
            headers={
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/x-ndjson",
            },
        )
        return answer.json() | {"status": answer.status_code}

    def engine(self, *records: Record) -> None:
        lines = [
            {"id": record_id(r), "kind": "basic", "name": record_name(r), "data": r}
            for r in records
        ]
        assert self.post("engine-key", *lines)["accepted"] == len(lines)

    def feedback(self, id_: str, number: int, name: str, value: float, **more: Any) -> Line:
        at = datetime.fromtimestamp((self.arrived_us + 60 * MICROS) / MICROS, UTC)
        return {
            "id": id_,
            "kind": "business",
            "time": at.isoformat(),
            "name": name,
            "value": value,
            "request_id": request_id(number),
            **more,
        }

    def honest(self) -> None:
        """Requests, and what the shop says of each."""
        self.engine(*(arrived(n, n, self.arrived_us + n * 1000) for n in range(REQUESTS)))
        values = {"copied": (0, 1), "stars": (1, 3), "pastes": (2, 4)}
        lines = [
            self.feedback(f"{name}-{n}", n, name, pair[n % 2])
            for n in range(REQUESTS)
            for name, pair in values.items()
        ]
        assert self.post("shop-key", *lines)["accepted"] == len(lines)

    def close(self) -> None:
        """Let the engine report the present, so that the cohort's attribution is over."""
        self.engine(*(second(REQUESTS + n, self.now_us + n) for n in range(3)))

    def rates(self, caps: dict[str, float]) -> dict[str, Rate]:
        features = SqliteFeatures(self._folder / "features.db")
        bus = SqliteBusReader(self._folder / "bus")
        eventually(features, offset=bus.end())
        found = rates(
            self._cohort(features),
            StaticDefinitions(SOON_CLOSED).current(),
            watermark_us=features.watermark_us("chat"),
            span_s=3600,
            caps=caps,
        )
        features.close()
        bus.close()
        return found

    def _cohort(self, features: SqliteFeatures) -> list[WindowRevision]:
        start_us = self.arrived_us // HOUR_US * HOUR_US
        windows = features.windows(
            "chat", from_us=start_us, to_us=start_us + HOUR_US, width_s=MINUTE_S
        )
        assert sum(window.counts.requests for window in windows) == REQUESTS
        return list(windows)


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Attack]:
    with pipeline(tmp_path) as client:
        yield Attack(tmp_path, client)


def within_its_cap(found: dict[str, Rate]) -> None:
    """Against what the shop said, which the test knows by itself."""
    for name, expected in HONEST.items():
        rate, metric = found[name], METRICS[name]
        assert rate.value is not None
        assert rate.closed_requests == REQUESTS
        assert rate.by_producer["rogue"].share <= CAP + 1e-9
        most = CAP * (metric.high - metric.low)
        assert abs(rate.value - expected) <= most + 1e-9, name


@pytest.mark.parametrize("high", [True, False])
def test_extreme_values_of_every_request_over_and_over_stay_within_the_cap(
    attack: Attack, high: bool
) -> None:
    attack.honest()
    flood = [
        attack.feedback(f"{name}-{n}-{again}", n, name, metric.high if high else metric.low)
        for name, metric in METRICS.items()
        if name in HONEST
        for n in range(REQUESTS)
        for again in range(12)
    ]
    assert attack.post("rogue-key", *flood)["accepted"] == len(flood)
    attack.close()
    within_its_cap(attack.rates({"rogue": CAP}))
    uncapped = attack.rates({})["stars"].value
    assert uncapped is not None
    assert abs(uncapped - HONEST["stars"]) > CAP * 5 / 2, "without a cap it would have moved more"
    late = [attack.feedback(f"late-{n}", n, "stars", 5.0 if high else 0.0) for n in range(REQUESTS)]
    assert attack.post("rogue-key", *late)["accepted"] == REQUESTS
    within_its_cap(attack.rates({"rogue": CAP}))


def test_forged_ids_and_fields_and_others_requests_gain_nothing(attack: Attack) -> None:
    attack.honest()
    theirs = [attack.feedback(f"copied-{n}", n, "copied", 1) for n in range(REQUESTS)]
    assert attack.post("rogue-key", *theirs)["accepted"] == REQUESTS, "ids are each producer's own"
    made_up = [attack.feedback(f"none-{n}", 10_000 + n, "copied", 1) for n in range(500)]
    assert attack.post("rogue-key", *made_up)["accepted"] == 500, "they wait for requests, for ever"
    base = attack.feedback("x", 1, "copied", 1)
    engine_s = arrived(999, 999, attack.arrived_us)
    refused: list[Line] = [
        base | {"producer": "shop"},
        base | {"value": 1e6},
        base | {"value": -1},
        base | {"value": float("1e308")},
        base | {"name": "stars", "value": 5.5},
        base | {"name": "pastes", "value": 1001},
        base | {"name": "undeclared"},
        base | {"kind": "semantic", "name": "reward"},
        base | {"kind": "command", "name": "discard"},
        base | {"kind": "basic", "name": "arrived", "data": engine_s},
        base | {"request_id": request_id(1, "other")},
        base | {"request_id": request_id(1), "target": "other"},
        base | {"request_id": "chat.1"},
        base | {"definition": 1},
    ]
    for line in refused:
        answer = attack.post("rogue-key", line)
        assert answer["status"] in (403, 422), line
        assert answer["accepted"] == 0
    attack.close()
    found = attack.rates({"rogue": CAP})
    assert found["stars"].by_producer.keys() == {"shop"}
    assert found["stars"].value == HONEST["stars"]
    copied = found["copied"]
    assert copied.value is not None
    assert copied.closed_requests == REQUESTS
    assert copied.by_producer["shop"].mean == HONEST["copied"]
    assert copied.by_producer["rogue"].share <= CAP + 1e-9
    assert HONEST["copied"] < copied.value <= HONEST["copied"] + CAP


def test_many_events_of_one_request_weigh_like_one(attack: Attack) -> None:
    """One request of sixty: a count adds up, and its sum is held to the metric's bounds."""
    attack.honest()
    flood = [attack.feedback(f"p-{n}", 0, "pastes", 1000) for n in range(2000)]
    assert attack.post("rogue-key", *flood)["accepted"] == 2000
    attack.close()
    pastes = attack.rates({"rogue": CAP})["pastes"]
    assert pastes.value is not None
    assert pastes.by_producer["rogue"].requests == 1
    assert pastes.by_producer["rogue"].mean == 1000.0
    assert pastes.by_producer["rogue"].share <= 1 / REQUESTS + 1e-9
    assert pastes.value <= HONEST["pastes"] + 1000 / REQUESTS
