"""The processes of a run: started with their logs, always stopped at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_S = 20.0
POLL_S = 0.25
TAIL_LINES = 25


class GoneError(Exception):
    """A process of the run ended by itself."""


class TooLateError(Exception):
    """Something that was awaited did not come in time."""


class Programs:
    """Child processes, each in its own group. Use in a ``with``: leaving it stops all of them."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Programs:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def start(
        self, name: str, words: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> None:
        """``python -m`` the words; what it prints goes to ``<name>.log``."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        """SIGTERM, then SIGKILL for the whole group after ``STOP_S``."""
        child = self._running.pop(name)
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def pids(self) -> dict[str, int]:
        """The process id of each child."""
        return {name: child.pid for name, child in self._running.items()}

    def check(self) -> None:
        """Raise ``GoneError`` with the end of its log if one has ended."""
        for name, child in self._running.items():
            if child.poll() is not None:
                raise GoneError(f"{name} ended with {child.returncode}:\n{self.tail(name)}")

    def log(self, name: str) -> Path:
        """Where a child's output goes."""
        return self.logs / f"{name}.log"

    def tail(self, name: str) -> str:
        """The last lines that a child printed."""
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def wait(
        self, what: str, ready: Callable[[], bool], *, timeout_s: float, poll_s: float = POLL_S
    ) -> None:
        """Ask ``ready`` until it says yes. Raises ``TooLateError`` naming what was awaited."""
        deadline_s = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                raise TooLateError(
                    f"waited {timeout_s:.0f} s for {what}; the logs are in {self.logs}"
                )
            time.sleep(poll_s)
