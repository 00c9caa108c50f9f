"""Ingest and the feature stage as an operator runs them: a file, ``init``, keys, processes.

Each process is ``trimtab --config FILE ingest | features | serve``, started, stopped, killed and
paused by name. No engine runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil
import yaml

from benchmarks.free_port import free_port
from controller import keys
from controller.config.load import load
from controller.keys import KeyRequest
from controller.layout import Layout
from controller.processes.first_start import prepare
from controller.settings import Settings
from controller.store.sql import open_store
from signals.errors import Unavailable
from signals.events import Kind

ROOT = Path(__file__).resolve().parents[1]
READY_S = 30.0
STOP_S = 20.0
POLL_S = 0.02

BusKind = Literal["sqlite", "kafka"]
Stage = Literal["ingest", "features", "serve"]


class StoppedError(Exception):
    """A process of the pipeline ended, or was not ready in time."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a pipeline is: ``kafka`` None means the SQLite bus; ``more``: sections of the file."""

    targets: Sequence[str] = ("chat",)
    bus: BusKind = "sqlite"
    kafka: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    more: Mapping[str, Any] | None = None


def tidy_when_told_to_end() -> None:
    """SIGTERM unwinds like Ctrl-C, so that no process is left behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Pipeline:
    """One state directory and its processes. Use in a ``with``: leaving it kills all of them."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._config = folder / "trimtab.yaml"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(yaml.safe_dump(self._tree(shape)), encoding="utf-8")
        self.settings: Settings = load(self._config, {})
        self.layout = Layout(self.settings.state_dir)
        prepare(self.settings)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._running)):
            self.kill(name)

    def key(self, name: str, *kinds: Kind) -> str:
        """A new producer's key that may post these kinds about everything."""
        address = self.settings.store.address(self.layout.store_db)
        store = open_store(address, self.settings.store)
        try:
            with store.write() as tx:
                wanted = KeyRequest(name=name, role="producer", kinds=kinds)
                return keys.create(tx, wanted, actor="benchmark", at_us=keys.wall_us())[1]
        finally:
            store.close()

    def start(self, stage: Stage, *, name: str | None = None) -> str:
        """Start a stage under a name of its own, and do not wait for it."""
        name = name or stage
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "controller.cli", "--config", str(self._config), stage],
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        return name

    def kill(self, name: str) -> None:
        """SIGKILL: no goodbye. A paused process dies too."""
        process = self._running.pop(name)
        process.kill()
        process.wait(STOP_S)

    def stop(self, name: str) -> int:
        """SIGTERM, and the exit code."""
        process = self._running.pop(name)
        process.terminate()
        return process.wait(STOP_S)

    def pause(self, name: str) -> None:
        """SIGSTOP: it believes that no time passes."""
        self._running[name].send_signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """SIGCONT."""
        self._running[name].send_signal(signal.SIGCONT)

    def pid(self, name: str) -> int:
        """The process id."""
        return self._running[name].pid

    def alive(self, name: str) -> bool:
        """Whether it was started and has not ended."""
        return name in self._running and self._running[name].poll() is None

    def ended(self) -> list[str]:
        """Those that ended by themselves."""
        return [name for name, one in self._running.items() if one.poll() is not None]

    def cpu_s(self, name: str) -> float:
        """Processor seconds, user and system, of a running process."""
        used = psutil.Process(self.pid(name)).cpu_times()
        return float(used.user + used.system)

    def rss_bytes(self, name: str) -> int:
        """Resident memory of a running process."""
        return int(psutil.Process(self.pid(name)).memory_info().rss)

    def log(self, name: str) -> Path:
        """Where its output goes."""
        return self.layout.logs / f"{name}.log"

    def ingest_ready(self) -> bool:
        """Whether ``GET /readyz`` says so."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def wait(self, what: str, ready: Callable[[], bool], *, timeout_s: float = READY_S) -> None:
        """Ask until ``ready``; while it raises ``Unavailable`` it is not. Raises ``StoppedError``.

        Only a process that runs by then may be waited for: one that ended is told at once.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                if ready():
                    return
            except Unavailable:
                pass
            for name in self.ended():
                raise StoppedError(f"{name} ended while {what} was awaited:\n{self.tail(name)}")
            if time.monotonic() > deadline_s:
                raise StoppedError(f"waited {timeout_s:g} s for {what}\n{self.tails()}")
            time.sleep(POLL_S)

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines that a process printed."""
        text = self.log(name).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def tails(self) -> str:
        """The last lines of each."""
        return "\n".join(f"── {name}\n{self.tail(name)}" for name in self._running)

    def _tree(self, shape: Shape) -> dict[str, Any]:
        bus: dict[str, Any] = {"kind": shape.bus}
        if shape.kafka is not None:
            bus["kafka"] = dict(shape.kafka)
        tree: dict[str, Any] = {
            "state_dir": str(self._folder),
            "targets": dict.fromkeys(shape.targets, _TARGET),
            "metrics": dict(shape.metrics or {}),
            "ingest": {"port": self.port},
            "bus": bus,
        }
        for section, values in (shape.more or {}).items():
            tree[section] = {**tree.get(section, {}), **values}
        return tree


_TARGET: dict[str, Any] = {
    "engine": {"control_urls": ["http://127.0.0.1:9"]},
    "maximize": "batch.tokens_per_s",
    "intents": {
        "live": {"class": "interactive", "slo": {"ttft_ms": 1000, "tpot_ms": 50}},
        "batch": {"class": "batch", "slo": {"e2e_ms": 5000}},
    },
}
"""Engines elsewhere, which nobody here talks to: their records come from the load."""
