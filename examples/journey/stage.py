"""The running system as the journey uses it: `trimtab up`, sample traffic, who may call what."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from examples.journey.figures import FigureLog
from examples.journey.memory import MemoryLog
from examples.journey.options import Options
from examples.journey.programs import Programs
from examples.journey.rest import Caller
from examples.journey.sample import TARGET, configuration, free_ports, pace_of
from examples.journey.screen import Screen

READY_S = 300.0
CONTROL_PATH = "/v1/runtime_config"


class Stage:
    """Use in a ``with``: leaving it stops everything that was started, also after a failure."""

    def __init__(self, options: Options, screen: Screen) -> None:
        self.options = options
        self.screen = screen
        self.pace = pace_of(options)
        self.ports = free_ports()
        chosen = options.state_dir or Path(tempfile.mkdtemp(prefix="trimtab-journey-"))
        self.state_dir = chosen.absolute()
        self.programs = Programs(self.state_dir / "logs")
        self.urls: dict[str, str] = {}
        self._pids: dict[str, int] = {}
        self._callers: dict[str, Caller] = {}
        self._names: dict[str, str] = {}
        self.memory = MemoryLog(self.pids)
        self._figures: FigureLog | None = None

    def __enter__(self) -> Stage:
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.programs.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._figures is not None:
            self._figures.stop()
        self.memory.stop()
        for caller in self._callers.values():
            caller.close()
        self.programs.__exit__(*failure)

    def forget(self) -> None:
        """Remove a state directory that nobody asked for; call it when everything has stopped."""
        if self.options.state_dir is None:
            shutil.rmtree(self.state_dir)

    # -- starting --------------------------------------------------------------------------------

    def write_configuration(self) -> Path:
        """Write the sample's ``trimtab.yaml`` into the state directory."""
        path = self.state_dir / "trimtab.yaml"
        text = configuration(self.options, self.pace, self.ports, self.state_dir)
        path.write_text(text, encoding="utf-8")
        return path

    def up(self, config: Path) -> None:
        """Start everything and wait until it is ready."""
        words = ["controller.cli", "--config", os.fspath(config), "up", "--json"]
        self.programs.start("up", words)
        self.wait("`trimtab up` to be ready", lambda: self._ready() is not None, READY_S)
        ready = self._ready() or {}
        self.urls, self._pids = ready["urls"], ready["pids"]
        key = Path(ready["admin_key"]).read_text(encoding="utf-8").strip()
        self._callers["admin"] = Caller(self.urls["serve"], key, name="admin")

    def invite(self, name: str, role: str, **bounds: Any) -> Caller:
        """A key of one's own for somebody, made by the admin."""
        made = self.admin.post("/v1/keys", {"name": name, "role": role, "targets": ["*"], **bounds})
        self._names[made["principal"]["id"]] = name
        self._callers[name] = Caller(self.urls["serve"], made["key"], name=name)
        return self._callers[name]

    def begin_traffic(self) -> None:
        """The SAMPLE traffic, as a producer with its own key."""
        key = self.state_dir / "keys" / "sample-users.key"
        producer = self.invite("sample_users", "producer", kinds=["business"], names=["*"])
        key.write_text(producer.key, encoding="utf-8")
        key.chmod(0o600)
        self.programs.start("traffic", self._traffic_words(key))

    def begin_watching(self) -> None:
        """Note figures and memory from now on."""
        self._figures = FigureLog(self.viewer, TARGET)
        self._figures.start()
        self.memory.start()

    # -- using it --------------------------------------------------------------------------------

    @property
    def admin(self) -> Caller:
        """Who makes keys."""
        return self._callers["admin"]

    @property
    def viewer(self) -> Caller:
        """Who looks and may do nothing."""
        return self._callers["vera"]

    @property
    def figures(self) -> FigureLog:
        """The figures noted so far."""
        assert self._figures is not None
        return self._figures

    def wait(
        self,
        what: str,
        ready: Callable[[], bool],
        timeout_s: float,
        *,
        progress: Callable[[], str] | None = None,
    ) -> None:
        """Wait for something, telling how it goes. Raises ``TooLateError``."""

        def asked() -> bool:
            if progress is not None:
                self.screen.progress(progress())
            return ready()

        self.programs.wait(what, asked, timeout_s=timeout_s)

    def who(self, principal: str) -> str:
        """A principal's name, where it was invited here; else its id."""
        return self._names.get(principal, principal)

    def policy(self, policy_id: str) -> dict[str, Any]:
        """One policy as it stands."""
        found: dict[str, Any] = self.viewer.get(f"/v1/policies/{policy_id}")
        return found

    def policies(self, *, state: str) -> list[dict[str, Any]]:
        """Policies of the target in a state, newest first."""
        found: list[dict[str, Any]] = self.viewer.get("/v1/policies", target=TARGET, state=state)[
            "items"
        ]
        return found

    def engine_changes(self) -> list[dict[str, Any]]:
        """The engine's own change log, from its control listener."""
        key = (self.state_dir / "keys" / "control.key").read_text(encoding="utf-8").strip()
        answer = httpx.get(
            self.urls["control"] + CONTROL_PATH,
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
        )
        changes: list[dict[str, Any]] = answer.raise_for_status().json()["changes"]
        return changes

    def sent(self) -> Mapping[str, Any]:
        """What the traffic says of itself; empty before it has."""
        try:
            told: dict[str, Any] = json.loads(self._stats.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return told

    def pids(self) -> dict[str, int]:
        """Every process of the run by name, this one included."""
        return {**self.programs.pids(), **self._pids, "journey": os.getpid()}

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _stats(self) -> Path:
        return self.state_dir / "traffic.json"

    def _ready(self) -> dict[str, Any] | None:
        """The line of JSON with which ``up`` says that it is ready."""
        for line in self.programs.log("up").read_text(encoding="utf-8").splitlines():
            told = json.loads(line) if line.startswith("{") else {}
            if told.get("event") == "ready" and "urls" in told:
                found: dict[str, Any] = told
                return found
        return None

    def _traffic_words(self, key: Path) -> list[str]:
        given = {
            "chat": self.urls["chat"].removesuffix("/v1"),
            "signals": self.urls["ingest"],
            "key-file": os.fspath(key),
            "stats": os.fspath(self._stats),
            "seed": self.options.seed,
            "flood": self.pace.flood,
            "on-s": self.pace.on_s,
            "off-s": self.pace.off_s,
            "chats-per-s": self.pace.chats_per_s,
        }
        words = [f"--{name}={value}" for name, value in given.items()]
        return ["examples.journey.traffic", *words]
