"""The control plane as it runs: ingest, features, serve and an engine, and a key for each role."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
from schemathesis import Case

from benchmarks.free_port import free_port
from benchmarks.pipeline import ROOT, Pipeline, Shape
from controller import keys
from controller.bootstrap import store_address
from controller.keys import KeyRequest
from controller.store.port import ROLES
from controller.store.sql import open_store

TARGET: Final = "chat"
STAGES: Final = ("ingest", "features", "serve")
REASON: Final = "a campaign"


class Served:
    """Use in a ``with``: leaving it ends every process. ``url`` of a store; None: SQLite."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self._opened = ExitStack()
        self.port, engine_port = free_port(), free_port()
        shape = _shape(self.port, engine_port, url)
        self.pipeline = self._opened.enter_context(Pipeline(folder, shape))
        self._start_engine(engine_port)
        self.tokens = self._invite()
        self.http = self._opened.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False)
        )

    def __enter__(self) -> Served:
        for stage in STAGES:
            self.pipeline.start(stage)
        self.pipeline.wait("serve", self._ready)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def call(self, role: str, method: str, path: str, body: object = None) -> Any:
        """The decoded answer. Raises ``httpx.HTTPStatusError``."""
        bearer = {"Authorization": f"Bearer {self.tokens[role]}"}
        answer = self.http.request(method, path, json=body, headers=bearer)
        return answer.raise_for_status().json()

    def send(self, case: Case[Any], role: str) -> Any:
        """A call that was made from the document, over the network."""
        bearer = {"Authorization": f"Bearer {self.tokens[role]}"}
        return case.call(base_url=str(self.http.base_url), headers=bearer)

    def known(self) -> dict[str, list[Any]]:
        """By parameter's or member's name: what is there."""
        setting = {"target": TARGET, "knob": "active_cap", "setting": {"value": 32}}
        made = self.call("operator", "POST", "/v1/policies", {**setting, "reason": REASON})
        pin: dict[str, Any] = {"target": TARGET, "kind": "pin", "knob": "step_token_budget"}
        pin |= {"setting": {"value": 128}, "reason": REASON, "expires_in_s": 3600}
        change: dict[str, Any] = {
            "target": TARGET,
            "kind": "deploy",
            "reason": REASON,
            "duration_s": 1,
        }
        spare = self.call("admin", "POST", "/v1/keys", {"name": "spare", "role": "viewer"})
        return {
            "target": [TARGET],
            "knob": ["active_cap", "step_token_budget"],
            "policy_id": [made["id"]],
            "shown_digest": [made["shown_digest"]],
            "override_id": [self.call("operator", "POST", "/v1/overrides", pin)["id"]],
            "change_id": [self.call("operator", "POST", "/v1/changes", change)["id"]],
            "key_id": [spare["principal"]["id"]],
            "name": ["thumbs", "dwell_s"],
            "scope": ["target", "live"],
        }

    def _ready(self) -> bool:
        try:
            return self.http.get("/readyz").is_success and self.pipeline.ingest_ready()
        except httpx.HTTPError:
            return False

    def _invite(self) -> dict[str, str]:
        settings = self.pipeline.settings
        store = open_store(store_address(settings), settings.store)
        found: dict[str, str] = {}
        with store.write() as tx:
            for role in ROLES:
                kinds = ("business",) if role == "producer" else ()
                wanted = KeyRequest(name=role, role=role, kinds=kinds)
                found[role] = keys.create(tx, wanted, actor="campaign", at_us=keys.wall_us())[1]
        store.close()
        return found

    def _start_engine(self, port: int) -> None:
        key = self.pipeline.layout.key("control").read_text(encoding="utf-8").strip()
        words = [f"--port={port}", f"--key={key}", f"--target={TARGET}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.races.engine", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._opened.callback(process.wait, 10)
        self._opened.callback(process.kill)
        assert process.stdout is not None
        self._opened.callback(process.stdout.close)
        if process.stdout.readline().strip() != "ready":
            raise ConnectionError("the engine did not start")


def _shape(port: int, engine_port: int, url: str | None) -> Shape:
    target = {
        "engine": {"control_urls": [f"http://127.0.0.1:{engine_port}"]},
        "maximize": "batch.tokens_per_s",
        "intents": {
            "live": {"class": "interactive", "slo": {"ttft_ms": 50, "tpot_ms": 1}},
            "batch": {"class": "batch", "slo": {"e2e_ms": 100}},
        },
    }
    more: dict[str, Any] = {"targets": {TARGET: target}, "serve": {"port": port}}
    if url is not None:
        more["store"] = {"url": url}
    return Shape(targets=(), more=more)
