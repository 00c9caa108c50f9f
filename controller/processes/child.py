"""One child process of ``trimtab up``: started, asked whether it is ready, stopped within a bound.

A child dies with its supervisor, however that died (``controller.processes.dies_with``). The
kernel ties this to the thread that started the child, so children are started by the main thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from controller.config.sections import SupervisorSettings
from controller.processes.child_log import RotatingLog


class ChildSpec(Struct, frozen=True, kw_only=True):
    """What to start. ``ready`` is given the process id and answers whether it can do its work."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    ready: Callable[[int], bool]
    urls: Mapping[str, str] = {}


class Child:
    """A running (or ended) process with its log. Used from the supervisor's main thread only."""

    def __init__(self, spec: ChildSpec, settings: SupervisorSettings) -> None:
        self.spec = spec
        self.was_ready = False
        self._stop_s = settings.stop_s
        self._process = _start(spec)
        self._pump = threading.Thread(
            target=_pump, args=(self._process, spec.log, settings), name=f"log-{spec.name}"
        )
        self._pump.start()

    @property
    def pid(self) -> int:
        """The process id, also after it ended."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative: ended by that OS signal."""
        return self._process.poll()

    def is_ready(self) -> bool:
        """Whether it runs and can do its work; remembered in ``was_ready``."""
        ready = self.exit_code() is None and self.spec.ready(self.pid)
        self.was_ready = self.was_ready or ready
        return ready

    def stop(self) -> int:
        """Ask it to stop, kill it when it does not in time; returns its exit code."""
        if self.exit_code() is None:
            self._process.terminate()
            try:
                self._process.wait(self._stop_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        self._pump.join()
        return code


def _start(spec: ChildSpec) -> subprocess.Popen[bytes]:
    bound = (sys.executable, "-m", "controller.processes.dies_with", str(os.getpid()))
    return subprocess.Popen(
        (*bound, *spec.command),
        env=dict(spec.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _pump(process: subprocess.Popen[bytes], path: Path, settings: SupervisorSettings) -> None:
    """Copy the child's output to its log until it ends.

    A disk that refuses must not stop the child, which would block on a full pipe: its output is
    still read, and the refusal goes to our own standard error once.
    """
    assert process.stdout is not None
    refused = False
    with process.stdout as lines, closing(_log(path, settings)) as log:
        for line in lines:
            try:
                log.write(line)
            except OSError as error:
                if not refused:
                    sys.stderr.write(f"{path}: {error.strerror}; output is lost\n")
                refused = True


def _log(path: Path, settings: SupervisorSettings) -> RotatingLog:
    return RotatingLog(path, max_bytes=settings.log_bytes, files=settings.log_files)
