"""A real engine process on free ports, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
from msgspec import Struct

from engine.adapters.http import HttpActuator
from engine.models import fetch
from engine.settings import default_cache

CONTROL_KEY = "control-secret"
SERVING_KEY = "serving-secret"
START_S = 180.0
SMALL: dict[str, Any] = {
    "port": 0,
    "control_port": 0,
    "context": 512,
    "kv_blocks": 256,
    "capacity_active": 8,
    "capacity_budget": 128,
    "calibration_repeats": 1,
    "max_queue": 24,
    "stop_grace_s": 1.0,
}
"""A small engine that starts quickly."""

PLAIN = httpx.Client(verify=False, timeout=120)
"""For http:// addresses: without the certificates that take longer to load than a test."""

INTENTS = {"live": {"class": "interactive"}, "jobs": {"class": "batch"}}


class RunningEngine(Struct, frozen=True, kw_only=True):
    """What a test needs of a started engine."""

    process: subprocess.Popen[str]
    folder: Path
    url: str
    control_url: str
    model: str
    incarnation: str
    fingerprint: str

    @property
    def trace_log(self) -> Path:
        """Where its spans are."""
        return self.folder / "traces.jsonl"

    def actuator(self) -> HttpActuator:
        """A new connection to its control listener."""
        return HttpActuator(self.control_url, CONTROL_KEY, timeout_s=10.0)

    def figures(self) -> dict[str, float]:
        """``/metrics``, by name and labels as written."""
        lines = PLAIN.get(f"{self.url}/metrics").text.splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
        }

    def figure(self, name: str) -> float:
        """The sum of one metric over its labels."""
        found = [v for k, v in self.figures().items() if k == name or k.startswith(name + "{")]
        assert found, f"no metric {name}"
        return sum(found)


def written_settings(folder: Path, **settings: Any) -> Path:
    """An ``EngineRun`` file in ``folder``, with the keys it names."""
    fetch(cache=default_cache(), say=lambda line: None)
    (folder / "control.key").write_text(CONTROL_KEY + "\n")
    (folder / "serving.key").write_text(SERVING_KEY + "\n")
    engine = SMALL | {
        "control_key_file": str(folder / "control.key"),
        "serving_key_file": str(folder / "serving.key"),
        "trace_log": str(folder / "traces.jsonl"),
    }
    run = {"target": "chat", "replica": "r0", "intents": INTENTS, "engine": engine | settings}
    (folder / "engine.json").write_text(json.dumps(run))
    return folder / "engine.json"


@contextmanager
def running_engine(folder: Path, **settings: Any) -> Iterator[RunningEngine]:
    """Start ``python -m engine`` in ``folder``, wait until it is ready, stop it at the end."""
    path = written_settings(folder, **settings)
    with (folder / "engine.log").open("w") as log:
        process = _start(path, log)
        try:
            yield _wait_until_ready(process, folder)
        finally:
            _stop(process)


def _start(settings: Path, log: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "engine", "--settings", str(settings)),
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=dict(os.environ),
    )


def _wait_until_ready(process: subprocess.Popen[str], folder: Path) -> RunningEngine:
    assert process.stdout is not None
    overdue = threading.Timer(START_S, process.kill)
    overdue.start()
    line = process.stdout.readline()
    overdue.cancel()
    assert line, f"the engine did not start:\n{(folder / 'engine.log').read_text()[-3000:]}"
    said = json.loads(line)
    return RunningEngine(
        process=process,
        folder=folder,
        **{name: said[name] for name in RunningEngine.__struct_fields__ if name in said},
    )


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
