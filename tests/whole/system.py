"""The whole product as an operator runs it: ``trimtab up`` on free ports, seen over REST only."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

TARGET = "chat"
START_S = 240.0
CONFIG = """\
state_dir: {state}
targets:
  chat:
    engine: {{kind: embedded}}
    maximize: batch.tokens_per_s
    on_kill: last_stable
    baseline: {{active_cap: 4}}
    intents:
      live: {{class: interactive, slo: {{ttft_ms: 1000, tpot_ms: 200, attainment: 0.9}}}}
      batch: {{class: batch, slo: {{e2e_ms: 2000, attainment: 0.9}}}}
    knobs: {{default: observe, active_cap: {{ladder: [1, 2, 4, 8]}}}}
trial: {{alpha: 0.05, washout_s: 1.0, block_s: 5.0, min_requests: 1, max_units: 60}}
features: {{lateness_s: 1}}
engine:
  port: {chat}
  control_port: {control}
  context: 512
  kv_blocks: 256
  capacity_active: 8
  capacity_budget: 128
  calibration_repeats: 1
ingest: {{port: {signals}}}
serve: {{port: {api}}}
"""


class System:
    """What tests need of the running product."""

    def __init__(
        self, process: subprocess.Popen[bytes], ready: dict[str, Any], folder: Path
    ) -> None:
        self.process = process
        self.urls: dict[str, str] = ready["urls"]
        self.state = folder / "state"
        key = Path(ready["admin_key"]).read_text(encoding="utf-8").strip()
        self.admin = self.client(key)
        self.ada, self.bob = (self._invite(name) for name in ("ada", "bob"))
        control = (self.state / "keys" / "control.key").read_text(encoding="utf-8").strip()
        self._control = httpx.Client(
            base_url=self.urls["control"],
            headers={"Authorization": f"Bearer {control}"},
            timeout=10,
        )

    def client(self, key: str) -> httpx.Client:
        """A caller of the control plane."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.urls["serve"], headers=headers, timeout=15)

    def _invite(self, name: str) -> httpx.Client:
        body = {"name": name, "role": "operator", "targets": ["*"]}
        return self.client(self.admin.post("/v1/keys", json=body).raise_for_status().json()["key"])

    def propose(self, cap: int, reason: str = "a test") -> str:
        """A cap proposed by ada and approved by bob; the policy's id."""
        body: dict[str, Any] = {"target": TARGET, "knob": "active_cap", "reason": reason}
        body["setting"] = {"value": cap}
        made = self.ada.post("/v1/policies", json=body).raise_for_status().json()
        shown = {"shown_digest": made["shown_digest"]}
        self.bob.post(f"/v1/policies/{made['id']}/approve", json=shown).raise_for_status()
        return str(made["id"])

    def policy(self, policy_id: str) -> dict[str, Any]:
        """A policy as it stands."""
        found: dict[str, Any] = self.ada.get(f"/v1/policies/{policy_id}").raise_for_status().json()
        return found

    def engine(self) -> dict[str, Any]:
        """What the engine itself shows."""
        answer = self._control.get("/v1/runtime_config").raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def cap(self) -> int:
        """The cap that the engine has."""
        settings = self.engine()["settings"]
        return int(next(s["value"] for s in settings if s["knob"] == "active_cap"))

    def kill_child(self, name: str) -> float:
        """``kill -9`` one stage; the monotonic time of it."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()

    def pids(self) -> dict[str, int]:
        """The stages' process ids, by what they were started as."""
        found: dict[str, int] = {}
        for child in psutil.Process(self.process.pid).children(recursive=False):
            words = " ".join(child.cmdline())
            for name in ("ingest", "features", "serve"):
                if words.endswith(f" {name}"):
                    found[name] = child.pid
            if "-m engine" in words or words.endswith(" engine"):
                found["engine"] = child.pid
        return found

    def actions(self) -> list[str]:
        """What the audit recorded, in order."""
        lines = self.admin.get("/v1/audit").raise_for_status().text.splitlines()
        return [json.loads(json.loads(line)["entry"])["action"] for line in lines]

    def audit_is_clean(self) -> bool:
        """Whether the audit verifies."""
        found = self.ada.get("/v1/audit/verify").raise_for_status().json()
        return bool(found["clean"])


def wait(what: str, ready: Callable[[], bool], *, within_s: float) -> float:
    """Ask until it is so; how long it took. Errors of a stage that is down count as "not yet"."""
    began_s = time.monotonic()
    while True:
        try:
            if ready():
                return time.monotonic() - began_s
        except (httpx.HTTPError, KeyError, StopIteration):
            pass
        assert time.monotonic() - began_s < within_s, f"waited {within_s:g} s for {what}"
        threading.Event().wait(0.1)


@contextmanager
def running_system(folder: Path, *, more: str = "") -> Iterator[System]:
    """``trimtab up`` until the ``with`` ends; nothing is left running. ``more``: of the file."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(4)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in sockets]
    names = dict(zip(("chat", "control", "signals", "api"), ports, strict=True))
    config = folder / "trimtab.yaml"
    config.write_text(CONFIG.format(state=folder / "state", **names) + more, encoding="utf-8")
    words = [sys.executable, "-m", "controller.cli", "--config", str(config), "up", "--json"]
    with (folder / "up.err").open("wb") as log:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log)
    try:
        yield System(process, _ready(process, folder), folder)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _ready(process: subprocess.Popen[bytes], folder: Path) -> dict[str, Any]:
    assert process.stdout is not None
    overdue = threading.Timer(START_S, process.kill)
    overdue.start()
    try:
        for line in process.stdout:
            said = json.loads(line)
            if said.get("urls"):
                found: dict[str, Any] = said
                return found
    finally:
        overdue.cancel()
    raise AssertionError(f"`up` did not start:\n{(folder / 'up.err').read_text()[-3000:]}")
