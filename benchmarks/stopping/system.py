"""One whole system under full load, on which an operator acts while parts of it stand still."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from controller.break_glass import Verb, act
from controller.config.load import load
from engine.adapters.http import HttpActuator
from examples.journey.programs import Programs, TooLateError
from examples.journey.rest import Caller, RefusedError
from examples.journey.sample import Ports, free_ports
from policies.runtime_config import Patch, RuntimeConfig, SettingChange
from signals.errors import Unavailable

TARGET, KNOB = "bench", "active_cap"
BASELINE, PINNED = 4, 3
READY_S, STEP_S = 300.0, 20.0
POLL_S = 0.002
CLIENTS = 12
TOKENS = 48

CONFIGURATION = """\
state_dir: {state}
targets:
  {target}:
    maximize: live.tokens_per_s
    on_kill: baseline
    baseline: {{{knob}: {baseline}}}
    intents:
      live: {{class: interactive}}
engine: {{port: {chat}, control_port: {control}, context: 512, kv_blocks: 512, capacity_active: 8,
  capacity_budget: 128, calibration_repeats: 1}}
ingest: {{port: {signals}}}
serve: {{port: {api}}}
"""


class System:
    """``trimtab up`` on this machine's engine. Use ``running_system``."""

    def __init__(self, programs: Programs, folder: Path, ports: Ports) -> None:
        self.folder = folder
        self.programs = programs
        self.settings = load(folder / "trimtab.yaml", {})
        key = (folder / "keys" / "admin.key").read_text(encoding="utf-8").strip()
        control = (folder / "keys" / "control.key").read_text(encoding="utf-8").strip()
        self.serving = (folder / "keys" / "engine.key").read_text(encoding="utf-8").strip()
        self.chat_url = ports.url(ports.chat)
        self.caller = Caller(ports.url(ports.api), key, name="bench")
        self.engine = HttpActuator(ports.url(ports.control), control, timeout_s=10.0)

    def close(self) -> None:
        """Let go of the connections."""
        self.caller.close()
        self.engine.close()

    def read(self) -> RuntimeConfig:
        """What the engine shows; nothing of ours is asked."""
        return self.engine.read(after_seq=1 << 40)

    def cap(self) -> int:
        """The cap in force."""
        found = self.read().setting(KNOB)
        return -1 if found is None else found.value

    def until(self, what: str, ready: Any) -> None:
        """Poll the engine. Raises ``TooLateError``."""
        deadline_s = time.monotonic() + STEP_S
        while not ready():
            if time.monotonic() > deadline_s:
                raise TooLateError(f"waited {STEP_S:g} s for {what}")
            time.sleep(POLL_S)

    def pin(self) -> None:
        """A pin that a kill has to take away."""
        body = {
            "target": TARGET,
            "kind": "pin",
            "knob": KNOB,
            "setting": {"value": PINNED},
            "reason": "benchmark",
            "expires_in_s": 600,
        }
        self.caller.post("/v1/overrides", body)
        self.until("the pin to be in force", lambda: self.cap() == PINNED)

    def put(self, value: int) -> None:
        """Change the engine past everybody, while nobody looks."""
        seen = self.read()
        self.engine.patch(
            Patch(
                change_id=f"break-glass.bench.{time.monotonic_ns()}",
                epoch=seen.epoch,
                expected=seen.expected,
                settings=(SettingChange(knob=KNOB, value=value),),
            )
        )

    def by_rest(self, verb: Verb) -> Any:
        """The act over REST."""
        return self.caller.post(f"/v1/targets/{TARGET}/{verb}", {"reason": "benchmark"})

    def direct(self, verb: Verb) -> Any:
        """The act past the control plane, as ``trimtab kill --direct`` does it."""
        return msgspec.to_builtins(act(self.settings, [TARGET], verb, "benchmark")[0])

    @contextmanager
    def stopped(self, word: str) -> Iterator[None]:
        """One of the processes stands still: it neither answers nor ends."""
        pids = [one.pid for one in psutil.process_iter() if self._is(one, word)]
        if not pids:
            raise Unavailable(f"no process of {word}")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _is(self, process: psutil.Process, word: str) -> bool:
        up = self.programs.pids()["up"]
        try:
            words = process.cmdline()
            ours = any(parent.pid == up for parent in process.parents())
        except psutil.Error:
            return False
        return ours and word in words

    @contextmanager
    def locked_store(self) -> Iterator[None]:
        """Somebody holds the store's one write lock, and does not let go."""
        path = self.folder / "store.db"
        connection = sqlite3.connect(path, timeout=STEP_S, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        finally:
            connection.close()

    def loaded(self) -> Load:
        """Clients without a pause; more than the cap."""
        return Load(self)


class Load:
    """Use in a ``with``. ``answered`` counts whole answers."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(CLIENTS)]
        self.answered = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self._system.until("full load", lambda: self.answered >= 2)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self, number: int) -> None:
        headers = {"Authorization": f"Bearer {self._system.serving}", "X-Trimtab-Intent": "live"}
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": f"Tell story {number}, at length."}],
            "max_tokens": TOKENS,
        }
        with httpx.Client(base_url=self._system.chat_url, timeout=60, trust_env=False) as http:
            models = http.get("/v1/models", headers=headers).json()["data"]
            body["model"] = models[0]["id"]
            while not self._stop.is_set():
                answer = http.post("/v1/chat/completions", headers=headers, json=body)
                with self._lock:
                    self.answered += answer.is_success


@contextmanager
def running_system(folder: Path) -> Iterator[System]:
    """Started and ready; stopped at the end."""
    ports = free_ports()
    (folder / "trimtab.yaml").write_text(
        CONFIGURATION.format(
            state=folder,
            target=TARGET,
            knob=KNOB,
            baseline=BASELINE,
            chat=ports.chat,
            control=ports.control,
            signals=ports.signals,
            api=ports.api,
        ),
        encoding="utf-8",
    )
    words = ["controller.cli", "--config", os.fspath(folder / "trimtab.yaml"), "up", "--json"]
    with Programs(folder / "logs") as programs:
        programs.start("up", words)
        programs.wait(
            "`trimtab up` to be ready",
            lambda: '"event":"ready","urls"' in programs.log("up").read_text(encoding="utf-8"),
            timeout_s=READY_S,
        )
        system = System(programs, folder, ports)
        try:
            system.until("the baseline", lambda: system.cap() == BASELINE)
            yield system
        finally:
            system.close()


def released(system: System, *, direct: bool) -> None:
    """Put everything back between two tries."""
    try:
        (system.direct if direct else system.by_rest)("release")
    except RefusedError as error:
        if error.status != 409:
            raise
    system.until("the release", lambda: not system.read().hold)
