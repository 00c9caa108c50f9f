"""``trimtab serve``, started in a tenth of a second: forked from a process that has it imported.

Two thirds of a start are imports, which no race is about. ``python -m benchmarks.races.nursery``
has them behind it and forks for each start; the child runs the very command, as process ``serve``
of its own session. Nobody outlives the nursery, and the nursery not whoever started it.

::

    start LOG  ->  PID        wait PID  ->  CODE        poll PID  ->  CODE, or running
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Self

from benchmarks.pipeline import ROOT

IMPORTED = (
    "controller.bootstrap",
    "controller.cli.main",
    "controller.processes.first_start",
    "controller.serve_wiring",
    "controller.store.migrate",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
)
"""What ``serve`` imports on its way, too."""
RUNNING = "running"
PR_SET_PDEATHSIG = 1


class Nursery:
    """The process that forks, from outside. Use in a ``with``."""

    def __init__(self, config: Path, log: Path) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.races.nursery", str(config)],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def start(self) -> int:
        """One more ``serve``; its process id."""
        return int(self._ask(f"start {self._log}"))

    def kill(self, pid: int) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._ask(f"wait {pid}")

    def stop(self, pid: int) -> int:
        """SIGTERM, and the exit code."""
        os.kill(pid, signal.SIGTERM)
        return int(self._ask(f"wait {pid}"))

    def ended(self, pid: int) -> bool:
        """Whether it ended by itself."""
        return self._ask(f"poll {pid}") != RUNNING

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise ConnectionError(f"the nursery is gone; it was told: {line}")
        return answer


def main(config: str) -> None:
    """Answer commands until standard input ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    codes: dict[int, int] = {}
    for line in sys.stdin:
        verb, _, what = line.strip().partition(" ")
        if verb == "start":
            print(_fork(config, what), flush=True)
        else:
            print(_code(codes, int(what), wait=verb == "wait"), flush=True)


def _code(codes: dict[int, int], pid: int, *, wait: bool) -> int | str:
    """How a child ended. Asked again it is the same."""
    if pid not in codes:
        found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        if not found:
            return RUNNING
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


def _fork(config: str, log: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            _become_serve(config, log)
            code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _become_serve(config: str, log: str) -> None:
    from controller.cli.main import main as trimtab

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for place, to in ((0, nothing), (1, said), (2, said)):
        os.dup2(to, place)
    sys.argv = ["trimtab", "--config", config, "serve"]
    trimtab()


if __name__ == "__main__":
    main(sys.argv[1])
