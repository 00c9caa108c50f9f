"""The supervisor's parts: bounded logs, bounded restarts, children that stop within a bound."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from controller.config.sections import SupervisorSettings
from controller.processes.child import Child, ChildSpec
from controller.processes.child_log import RotatingLog, tail
from controller.processes.restarts import Restarts
from tests.cli.running import until

DEAF = "import signal as s; s.signal(15, s.SIG_IGN); print('deaf', flush=True); s.pause()"
CHATTY = "print('\\n'.join(str(n).zfill(99) for n in range(3000)))"


def spec(folder: Path, code: str) -> ChildSpec:
    return ChildSpec(
        name="child",
        command=(sys.executable, "-c", code),
        env=dict(os.environ),
        log=folder / "child.log",
        ready=lambda _: tail(folder / "child.log") != "",
    )


def test_a_log_keeps_its_newest_lines_within_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "child.log"
    log = RotatingLog(path, max_bytes=100, files=3)
    for n in range(40):
        log.write(f"line {n:04}\n".encode())
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["child.log", "child.log.1", "child.log.2"]
    assert all(file.stat().st_size <= 100 for file in files)
    kept = "".join(file.read_text() for file in reversed(files)).split("\n")[:-1]
    assert kept == [f"line {n:04}" for n in range(10, 40)]
    assert tail(path, lines=2) == "line 0038\nline 0039"


def test_a_log_goes_on_where_an_earlier_run_ended(tmp_path: Path) -> None:
    path = tmp_path / "child.log"
    for text in (b"first\n", b"second\n"):
        log = RotatingLog(path, max_bytes=100, files=2)
        log.write(text)
        log.close()
    assert path.read_text() == "first\nsecond\n"
    assert tail(tmp_path / "none.log") == ""


def test_a_chatty_child_fills_no_disk(tmp_path: Path) -> None:
    settings = SupervisorSettings(log_bytes=65_536, log_files=2)
    child = Child(spec(tmp_path, CHATTY), settings)
    until(lambda: child.exit_code() == 0, "the child has said it all")
    assert child.stop() == 0
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 65_536
    assert tail(tmp_path / "child.log", lines=1).endswith("2999")


def test_a_child_that_is_deaf_to_termination_is_killed_in_time(tmp_path: Path) -> None:
    child = Child(spec(tmp_path, DEAF), SupervisorSettings(stop_s=0.5))
    until(child.is_ready, "the child is deaf")
    assert child.stop() == -9


def test_restarts_slow_down_and_then_wait_out_the_minute() -> None:
    restarts = Restarts(SupervisorSettings())
    waits = []
    now_s = 1000.0
    for _ in range(8):
        at_s = restarts.crashed(now_s=now_s)
        waits.append(round(at_s - now_s, 2))
        now_s = at_s
    assert waits[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]
    assert restarts.exhausted
    assert waits[6] > 40
    assert max(waits[:5]) < 10


def test_a_quiet_minute_forgives_earlier_crashes() -> None:
    restarts = Restarts(SupervisorSettings(restarts_per_minute=1))
    assert restarts.crashed(now_s=0.0) == 0.25
    restarts.crashed(now_s=1.0)
    assert restarts.exhausted
    assert restarts.crashed(now_s=200.0) == 200.25
    assert not restarts.exhausted
