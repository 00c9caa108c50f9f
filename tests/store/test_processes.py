"""``serve`` and ``ingest`` as processes, with PostgreSQL as their store."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controller.audit.verify import verify
from controller.config.load import load
from controller.layout import Layout
from controller.processes.first_start import prepare
from controller.serving import take_identity
from controller.store.address import StoreAddress
from controller.store.owning import owning
from controller.store.sql import SqlReader, SqlStore
from signals.errors import Unavailable
from tests.postgres import Postgres
from tests.signals.processes import ROOT, free_port

WITHIN_S = 60.0


class Machine:
    """A state directory without a store, and its processes."""

    def __init__(self, folder: Path, address: StoreAddress) -> None:
        self.folder = folder
        self.config = folder / "trimtab.yaml"
        self.serve_port, self.ingest_port = free_port(), free_port()
        tree: dict[str, Any] = {
            "state_dir": str(folder / "state"),
            "store": {"url": address.url},
            "serve": {"port": self.serve_port},
            "ingest": {"port": self.ingest_port},
            "targets": {
                "chat": {
                    "engine": {"control_urls": [f"http://127.0.0.1:{free_port()}"]},
                    "maximize": "batch.tokens_per_s",
                    "intents": {
                        "batch": {"class": "batch", "slo": {"e2e_ms": 1000, "attainment": 0.9}}
                    },
                }
            },
        }
        self.config.write_text(yaml.safe_dump(tree))
        self.settings = load(self.config, {})
        self.made = prepare(self.settings)
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, stage: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{stage}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "controller.cli", "--config", str(self.config), stage],
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self.running.append(process)
        return process

    def said(self, stage: str) -> str:
        return (self.folder / f"{stage}.log").read_text()

    def asks(self, method: str, path: str, **more: Any) -> httpx.Response:
        """As the first admin, of the control plane."""
        key = Layout(self.settings.state_dir).key("admin").read_text().strip()
        url = f"http://127.0.0.1:{self.serve_port}{path}"
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.request(method, url, headers=headers, timeout=10, trust_env=False, **more)

    def posts(self, token: str, event: dict[str, Any]) -> httpx.Response:
        """As a producer, to ingest."""
        url = f"http://127.0.0.1:{self.ingest_port}/v1/signals"
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(url, json=event, headers=headers, timeout=10, trust_env=False)

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait(10)


@pytest.fixture
def machine(tmp_path: Path, postgres: Postgres) -> Iterator[Machine]:
    address = postgres.empty()
    made = Machine(tmp_path, address)
    yield made
    made.close()
    postgres.drop(address)


def until(what: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            if what():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_serve_and_ingest_share_a_postgresql_until_a_newer_serve_takes_it_over(
    machine: Machine,
) -> None:
    layout = Layout(machine.settings.state_dir)
    address = machine.settings.store.address(layout.store_db)
    assert layout.key("admin") in machine.made
    assert prepare(machine.settings) == ()
    assert not layout.store_db.exists()

    first = machine.start("serve")
    machine.start("ingest")
    until(lambda: machine.asks("GET", "/v1/keys").status_code == 200)
    wanted = {"name": "shop", "role": "producer", "kinds": ["business"], "targets": ["chat"]}
    made = machine.asks("POST", "/v1/keys", json=wanted)
    assert made.status_code == 201, made.text
    event = {
        "id": "e1",
        "kind": "business",
        "time": datetime.now(UTC).isoformat(),
        "name": "thumbs",
        "value": 1,
        "target": "chat",
        "external_id": "x1",
    }
    until(lambda: machine.posts("tt_guess", event).status_code == 401)
    posted = machine.posts(made.json()["key"], event)
    assert posted.status_code == 202, posted.text

    with pytest.raises(Unavailable, match="another process"), owning(address):
        pass
    first.kill()
    first.wait(10)
    second = machine.start("serve")
    until(lambda: machine.asks("GET", "/v1/keys").status_code == 200)

    with closing(SqlStore(address)) as newer:
        take_identity(newer)
    refused = machine.asks("POST", "/v1/keys", json={**wanted, "name": "late"})
    assert refused.status_code == 503, refused.text
    assert second.wait(WITHIN_S) != 0
    assert "fenced by a newer serve" in machine.said("serve")
    with closing(SqlReader(address)) as reader, reader.read() as tx:
        known = tx.keys()
    assert "late" not in [key.name for key in known]
    assert verify(address).clean
