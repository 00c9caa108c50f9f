"""``python -m engine.simulated``: a process whose settings can be read and changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from engine.generation import QueueFull
from engine.settings_in_force import EngineIdentity
from engine.simulated.offered import Offered
from engine.simulated.paced import PacedEngine
from policies.runtime_config import CONTROL_PATH
from signals.errors import Rejected
from tests.simulated.loads import SPEC, chats

KEY = "control-key"
IDENTITY = EngineIdentity(target="chat", replica="r0", incarnation="i")


def test_it_serves_its_settings_obeys_a_law_under_its_own_chats_and_ends_on_sigterm(
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_text(KEY)
    run = {"engine": {"control_key_file": str(tmp_path / "key"), "control_port": 0}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    command = [sys.executable, "-m", "engine.simulated", "--settings", str(tmp_path / "run.json")]
    with subprocess.Popen(
        [*command, "--chats-per-s", "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["control_url"]
            headers = {"Authorization": f"Bearer {KEY}"}
            with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
                seen = client.get(CONTROL_PATH).json()
                law = {
                    "variable": "arrivals",
                    "class": "interactive",
                    "window_s": 60.0,
                    "default": 64,
                    "steps": [{"above": 0, "value": 7}],
                }
                change = {
                    "change_id": "a",
                    "epoch": 0,
                    "expected": f"{seen['incarnation']}:0",
                    "settings": [{"knob": "active_cap", "law": law}],
                    "trial": None,
                }
                assert client.patch(CONTROL_PATH, json=change).status_code == 200
                while client.get(CONTROL_PATH).json()["settings"][0]["value"] != 7:
                    assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_it_says_what_is_missing_when_it_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    command = [sys.executable, "-m", "engine.simulated", "--settings", str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "engine.control_key_file" in done.stderr


def chat(**fields: int) -> Offered:
    return next(chats(0.0, **fields))


def test_a_full_queue_and_a_request_that_never_fits_are_refused() -> None:
    engine = PacedEngine(IDENTITY, replace(SPEC, max_queue=2, kv_blocks=100))
    engine.offer(chat())
    stay = engine.offer(chat())
    with pytest.raises(QueueFull, match="2 requests"):
        engine.offer(chat())
    with pytest.raises(Rejected, match="KV pool"):
        engine.offer(chat(prompt=5000))
    assert not stay.done.is_set()
