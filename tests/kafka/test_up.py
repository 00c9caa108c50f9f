"""``trimtab up`` on Kafka, from HTTP to windows, with a broker that goes away in between."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from benchmarks.broker import Broker
from controller.layout import Layout
from signals.events import MICROS, Second
from signals.features.partitioned import PartitionedFeatures
from signals.records import record_id, record_name
from tests.cli.running import Up
from tests.kafka.buses import PARTITIONS, freeze, key_of, thaw, wait_until
from tests.signals.making import second, stamp
from tests.signals.processes import free_port

TARGETS = tuple(key_of(number) for number in range(PARTITIONS))
REQUEST_MS = 2000
ENGINE = {
    "engine": {"control_urls": ["http://127.0.0.1:9"]},
    "maximize": "batch.tokens_per_s",
    "intents": {"batch": {"class": "batch"}},
}


def configured(folder: Path, broker: Broker) -> dict[str, Any]:
    """A machine without an engine; its targets are in three partitions."""
    return {
        "state_dir": str(folder / "state"),
        "serve": {"port": free_port()},
        "ingest": {"port": free_port()},
        "targets": dict.fromkeys(TARGETS, ENGINE),
        "bus": {
            "kind": "kafka",
            "kafka": {
                "bootstrap": [f"127.0.0.1:{broker.port}"],
                "topic": "up",
                "partitions": PARTITIONS,
                "replication": 1,
                "allow_single_copy": True,
                "session_timeout_ms": 2000,
                "heartbeat_ms": 500,
                "request_timeout_ms": REQUEST_MS,
                "fetch_wait_ms": 10,
            },
        },
    }


class Machine:
    """A started machine and two callers of it."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.tree = configured(folder, broker)
        config = folder / "trimtab.yaml"
        config.write_text(json.dumps(self.tree), encoding="utf-8")
        self.up = Up(config)
        for name in ("features", "ingest", "serve"):
            self.up.wait_for("ready", name, within_s=60)
        ready = self.up.wait_for("ready", within_s=5)
        self.admin = _client(ready["urls"]["serve"], Path(ready["admin_key"]).read_text().strip())
        body = {"name": "engines", "role": "producer", "kinds": ["basic"], "targets": ["*"]}
        made = self.admin.post("/v1/keys", json=body).raise_for_status().json()
        self.engines = _client(ready["urls"]["ingest"], made["key"])

    def features(self) -> PartitionedFeatures:
        path_of = Layout(Path(self.tree["state_dir"])).features
        return PartitionedFeatures(path_of, PARTITIONS)

    def close(self) -> None:
        self.admin.close()
        self.engines.close()
        self.up.close()


class Engines(threading.Thread):
    """Engines that report a second each 20 ms and post until they are acknowledged."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__()
        self._client = client
        self._over = threading.Event()
        self._from_us = time.time_ns() // 1000 - 60 * MICROS
        self.acknowledged = 0
        self.refused = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            at_us = self._from_us + self.acknowledged * 20_000
            records = [
                second(self.acknowledged, at_us, by=stamp(target=target)) for target in TARGETS
            ]
            body = b"\n".join(_posted(record) for record in records)
            while not self._taken(body):
                self.refused += 1
            self.acknowledged += 1

    def _taken(self, body: bytes) -> bool:
        kind = {"Content-Type": "application/x-ndjson"}
        answer = self._client.post("/v1/signals", content=body, headers=kind)
        if answer.status_code == 503:
            assert int(answer.headers["Retry-After"]) >= 1
            return False
        assert answer.raise_for_status().json()["accepted"] == len(TARGETS)
        return True

    def end(self) -> int:
        self._over.set()
        self.join(30)
        return self.acknowledged


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=20, trust_env=False
    )


def _posted(record: Second) -> bytes:
    posted = {"id": record_id(record), "kind": "basic", "name": record_name(record)}
    return msgspec.json.encode({**posted, "data": record})


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Machine, Broker]]:
    with Broker() as broker, closing(Machine(tmp_path, broker)) as running:
        yield running, broker


def test_what_is_acknowledged_over_http_is_in_the_windows_once_whatever_the_broker_does(
    machine: tuple[Machine, Broker],
) -> None:
    running, broker = machine
    load = Engines(running.engines)
    load.start()
    wait_until(lambda: load.acknowledged > 50)
    freeze(broker.pid)
    wait_until(lambda: load.refused > 0)
    assert running.engines.get("/readyz").status_code == 503
    thaw(broker.pid)
    before = load.acknowledged
    wait_until(lambda: load.acknowledged > before + 50)
    assert running.engines.get("/readyz").is_success
    posted = load.end()
    with closing(running.features()) as features:

        def counted() -> list[int]:
            return [len(features.seconds(name, from_us=0, to_us=2**62)) for name in TARGETS]

        wait_until(lambda: min(counted()) >= posted, within_s=30)
        assert counted() == [posted] * PARTITIONS
        assert all(features.windows(name, from_us=0, to_us=2**62) for name in TARGETS)
    assert running.admin.get("/readyz").is_success
