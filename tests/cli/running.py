"""Running the command line in a test: in this process, or as processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
from typer.testing import CliRunner

from controller.cli.main import app
from tests.house.tree import ROOT

WAIT_S = 30.0


class Done:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """The answer of a command with ``--json``."""
        return json.loads(self.out)


class Trimtab:
    """The command line in this process, with a configuration and state in ``folder``."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        config = folder / "trimtab.yaml"
        config.touch()
        self._env = {
            "TRIMTAB_CONFIG": str(config),
            "TRIMTAB_STATE_DIR": str(folder / "state"),
            "TERM": "dumb",
            **(env or {}),
        }

    def __call__(self, *words: str, stdin: str | None = None) -> Done:
        """Run one command."""
        result = CliRunner().invoke(app, list(words), input=stdin, env=self._env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)


class Up:
    """``trimtab up --json`` as a process, its events as they come."""

    def __init__(self, config: Path) -> None:
        self.events: list[dict[str, Any]] = []
        command = (sys.executable, "-m", "controller.cli", "--config", str(config), "up", "--json")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, event: str, name: str | None = None, *, within_s: float) -> dict[str, Any]:
        """The first such event that was not waited for before."""

        def found() -> bool:
            return any(_is(one, event, name) for one in self.events)

        until(found, f"{event} of {name}; events: {self.events}", within_s=within_s)
        index = next(i for i, one in enumerate(self.events) if _is(one, event, name))
        return self.events.pop(index)

    def ended(self, *, within_s: float) -> tuple[int, str]:
        """Exit code and standard error, once it ended."""
        code = self.process.wait(within_s)
        self._reader.join()
        assert self.process.stderr is not None
        return code, self.process.stderr.read()

    def close(self) -> None:
        """End it, however it stands."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))


def until(seen: Callable[[], bool], what: str, *, within_s: float = WAIT_S) -> None:
    """Poll until it is so; fail with ``what`` when it is not in time."""
    deadline_s = time.monotonic() + within_s
    while not seen():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


def answers(url: str) -> bool:
    """Whether it answers with a success."""
    try:
        return httpx.get(url, timeout=1).is_success
    except httpx.HTTPError:
        return False


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _is(one: dict[str, Any], event: str, name: str | None) -> bool:
    return bool(one["event"] == event and one.get("name") == name)
