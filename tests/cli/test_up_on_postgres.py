"""``trimtab up`` with its store in a PostgreSQL that is restarted, and taken from it, meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.store.address import StoreAddress
from tests.cli.running import Trimtab, Up, until
from tests.cli.test_up import CHILDREN, configured
from tests.postgres import Postgres
from tests.signals.processes import free_port


class Machine:
    """A running machine whose one target's engine is away, and its store's database."""

    def __init__(self, folder: Path, postgres: Postgres) -> None:
        self.postgres = postgres
        self.address: StoreAddress = postgres.empty()
        self.config = configured(folder)
        said = json.loads(self.config.read_text())
        self.config.write_text(json.dumps(said | {"store": {"url": self.address.url}}))
        self.trimtab = Trimtab(folder)
        assert self.trimtab("init").code == 0
        self.up = Up(self.config)
        for name in CHILDREN:
            self.up.wait_for("ready", name, within_s=60)
        self.ready = self.up.wait_for("ready", within_s=5)
        self.folder = folder
        self._key = Path(self.ready["admin_key"]).read_text().strip()

    def hold(self, reason: str) -> int:
        """Hold and release the target over REST; the status of the first."""
        headers = {"Authorization": f"Bearer {self._key}"}
        url = f"{self.ready['urls']['serve']}/v1/targets/chat"
        try:
            done = httpx.post(f"{url}/hold", headers=headers, json={"reason": reason}, timeout=5)
            httpx.post(f"{url}/release", headers=headers, json={"reason": reason}, timeout=5)
        except httpx.HTTPError:
            return 0
        return done.status_code

    def held(self, reason: str) -> None:
        """It takes holds (again), and they are in its audit."""
        until(lambda: self.hold(reason) == 200, f"a hold: {reason}", within_s=15)
        audit = self.trimtab("history", "--json", "--limit", "20")
        assert reason in audit.out, audit.err

    def second_serve(self) -> subprocess.CompletedProcess[str]:
        """As on another machine: a state directory and a port of its own, and the same database."""
        said = json.loads(self.config.read_text())
        said |= {"state_dir": str(self.folder / "other"), "serve": {"port": free_port()}}
        config = self.folder / "other.yaml"
        config.write_text(json.dumps(said))
        shutil.copytree(self.folder / "state" / "keys", self.folder / "other" / "keys")
        command = (sys.executable, "-m", "controller.cli", "--config", str(config), "serve")
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def machine(tmp_path: Path, postgres: Postgres) -> Iterator[Machine]:
    """Started, and stopped in the end; its database goes with it."""
    made = Machine(tmp_path, postgres)
    yield made
    made.up.close()
    postgres.drop(made.address)


def test_it_lives_through_what_becomes_of_its_database_and_of_itself(machine: Machine) -> None:
    assert not (machine.folder / "state" / "store.db").exists()
    machine.held("at the start")
    machine.postgres.end_sessions(machine.address)
    machine.held("after its sessions were ended")
    machine.postgres.restart()
    machine.held("after the database was restarted")
    assert [one for one in machine.up.events if one["event"] == "crashed"] == []

    second = machine.second_serve()
    assert second.returncode == 3
    assert "another process owns postgresql://" in second.stderr
    machine.held("after a second serve was refused")

    os.kill(machine.ready["pids"]["serve"], signal.SIGKILL)
    machine.up.wait_for("back", "serve", within_s=15)
    machine.held("after serve was killed")
    assert machine.trimtab("audit", "verify").out.endswith("clean\n")
