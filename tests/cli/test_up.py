"""``trimtab up`` with its real children: started, killed, brought back, stopped, never orphaned."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Trimtab, Up, alive, answers, until
from tests.signals.processes import free_port

CHILDREN = ("features", "ingest", "serve")
BACK_S = 10.0
STOP_S = 15.0


def configured(folder: Path) -> Path:
    """A machine without an engine: its one target's engine is elsewhere, and away."""
    config = folder / "trimtab.yaml"
    elsewhere = f"http://127.0.0.1:{free_port()}"
    config.write_text(
        json.dumps(
            {
                "state_dir": str(folder / "state"),
                "serve": {"port": free_port()},
                "ingest": {"port": free_port()},
                "targets": {
                    "chat": {
                        "engine": {"control_urls": [elsewhere]},
                        "maximize": "batch.tokens_per_s",
                        "intents": {"batch": {"class": "batch"}},
                    }
                },
            }
        )
    )
    return config


class Started:
    """A started machine, and what it said when it was ready."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = configured(folder)
        self.up = Up(self.config)
        self.ready: dict[str, Any] = {}

    def wait(self) -> Started:
        for name in CHILDREN:
            self.up.wait_for("ready", name, within_s=60)
        self.ready = self.up.wait_for("ready", within_s=5)
        return self


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One machine for the tests of this file that leave it running."""
    machine = Started(tmp_path_factory.mktemp("up"))
    try:
        yield machine.wait()
    finally:
        machine.up.close()


def test_ready_says_where_everything_is_and_never_a_key(started: Started) -> None:
    assert started.ready["urls"].keys() == {"ingest", "serve"}
    assert started.ready["pids"].keys() == set(CHILDREN)
    assert all(alive(pid) for pid in started.ready["pids"].values())
    key = Path(started.ready["admin_key"])
    assert key == started.folder / "state/keys/admin.key"
    assert key.read_text().strip() not in json.dumps([started.ready, started.up.events])


def test_feedback_posted_to_the_running_machine_is_taken(started: Started) -> None:
    trimtab, key = Trimtab(started.folder), started.folder / "shop.key"
    words = ("keys", "create", "shop", "--role", "producer", "--kind", "business")
    assert trimtab(*words, "--out", str(key)).code == 0
    event = {
        "id": "1",
        "kind": "business",
        "time": "2020-01-01T00:00:00Z",
        "name": "thumbs",
        "value": 1,
        "request_id": "chat.none",
    }
    late = trimtab("signals", "post", "-", "--key", str(key), stdin=json.dumps(event))
    assert late.code == 2
    status = trimtab("status", "--json").json
    assert status["items"][0]["replicas"][0]["reachable"] is False
    assert trimtab("audit", "verify").out.endswith("clean\n")


@pytest.mark.parametrize("name", CHILDREN)
def test_a_killed_child_is_back_within_ten_seconds(started: Started, name: str) -> None:
    started.up.events.clear()
    before = started.ready["pids"][name]
    os.kill(before, signal.SIGKILL)
    crashed = started.up.wait_for("crashed", name, within_s=2)
    assert crashed["exit_code"] == -signal.SIGKILL
    back = started.up.wait_for("back", name, within_s=BACK_S)
    assert back["pid"] != before
    if name in started.ready["urls"]:
        assert answers(f"{started.ready['urls'][name]}/readyz")
    started.ready["pids"][name] = back["pid"]


def test_a_second_one_in_the_same_state_directory_is_refused(started: Started) -> None:
    second = Up(started.config)
    code, told = second.ended(within_s=20)
    second.close()
    assert code == 3
    assert "holds up.lock" in told
    assert all(alive(pid) for pid in started.ready["pids"].values())


def test_termination_stops_every_child_in_order(tmp_path: Path) -> None:
    machine = Started(tmp_path).wait()
    machine.up.process.terminate()
    code, told = machine.up.ended(within_s=STOP_S)
    machine.up.close()
    assert (code, told) == (0, "")
    stopped = [(e["name"], e["exit_code"]) for e in machine.up.events if e["event"] == "stopped"]
    assert stopped == [("serve", 0), ("ingest", 0), ("features", 0)]
    assert not any(alive(pid) for pid in machine.ready["pids"].values())


def test_no_child_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    machine = Started(tmp_path).wait()
    machine.up.process.kill()
    pids = machine.ready["pids"].values()
    until(lambda: not any(alive(pid) for pid in pids), f"{pids} are gone", within_s=5)
    machine.up.close()


def test_a_taken_port_ends_it_with_the_end_of_the_log(tmp_path: Path) -> None:
    config = configured(tmp_path)
    port = json.loads(config.read_text())["ingest"]["port"]
    with socket.create_server(("127.0.0.1", port)):
        up = Up(config)
        code, told = up.ended(within_s=60)
        up.close()
    assert code == 3
    assert "ingest ended with" in told
    assert f"cannot serve on 127.0.0.1:{port}" in told
    assert not any(alive(e["pid"]) for e in up.events if e["event"] == "started")
