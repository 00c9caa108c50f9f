"""The engine as a process: how it starts, refuses to start, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from signals.events import Finished
from tests.engine_http.test_under_load import streaming
from tests.engine_process import RunningEngine, running_engine, written_settings
from tests.engine_telemetry.ingesting import KEY, Ingest, wait


def refusal(folder: Path, **changes: Any) -> tuple[int, str]:
    """Exit code and standard error of an engine that cannot start."""
    path = written_settings(folder)
    run = json.loads(path.read_text())
    run["engine"] |= changes
    path.write_text(json.dumps(run))
    ended = subprocess.run(
        (sys.executable, "-m", "engine", "--settings", str(path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"control_key_file": None}, "engine.control_key_file"),
        ({"control_key_file": "nowhere/at.all"}, "engine.control_key_file"),
        ({"capacity_active": 0}, "engine.capacity_active"),
        ({"no_such_setting": 1}, "engine.no_such_setting"),
    ],
)
def test_settings_that_cannot_work_are_named(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    code, stderr = refusal(tmp_path, **changes)
    assert code == 2
    assert said in stderr


def test_an_empty_key_would_open_the_door_so_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.key").write_text("\n")
    code, stderr = refusal(tmp_path, control_key_file=str(tmp_path / "empty.key"))
    assert (code, "is empty" in stderr) == (2, True)


def test_a_taken_port_is_found_before_anything_slow(tmp_path: Path, engine: RunningEngine) -> None:
    taken = int(engine.control_url.rpartition(":")[2])
    code, stderr = refusal(tmp_path, control_port=taken)
    assert (code, f"127.0.0.1:{taken}" in stderr) == (2, True)
    assert "preparing" not in stderr


def test_a_stop_ends_running_answers_tells_the_rest_and_exits_cleanly(tmp_path: Path) -> None:
    (tmp_path / "producer.key").write_text(KEY)
    with Ingest() as ingest:
        key_file = str(tmp_path / "producer.key")
        with running_engine(
            tmp_path, ingest_url=ingest.url, producer_key_file=key_file, stop_grace_s=0.3
        ) as engine:
            with streaming(engine, 400) as lines:
                first = json.loads(next(lines).removeprefix("data: "))
                engine.process.send_signal(signal.SIGTERM)
                rest = [line for line in lines if line]
            assert engine.process.wait(20) == 0
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "cancelled"
        (end,) = [record for record in ingest.of(Finished) if record.request_id == first["id"]]
        assert end.status == "cancelled"


ORPHAN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "engine", "--settings", sys.argv[1]])
print(child.pid, flush=True)
child.wait()
"""


def test_an_engine_does_not_outlive_its_parent(tmp_path: Path) -> None:
    settings = written_settings(tmp_path)
    parent = subprocess.Popen(
        (sys.executable, "-c", ORPHAN, str(settings)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    )
    overdue = threading.Timer(120, parent.kill)
    overdue.start()
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert json.loads(parent.stdout.readline())["ready"] == "engine"
        parent.kill()
        wait.until(lambda: not child.is_running(), "the engine ends")
    finally:
        overdue.cancel()
        parent.kill()
        parent.wait()
        parent.stdout.close()  # type: ignore[union-attr]
