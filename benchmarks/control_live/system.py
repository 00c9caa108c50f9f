"""The running product: started with ``trimtab up``, steered by an operator over REST."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import msgspec

from benchmarks import product
from benchmarks.control_live.arms import LARGE, SMALL, Arm
from examples.journey.programs import Programs, TooLateError
from examples.journey.sample import Ports
from policies.settings import Setting
from signals.features.reader import SqliteFeatures

TARGET = "chat"
KNOB = "active_cap"
SETTLED_S = 20.0
POLL_S = 0.1
FORCE_S = 3600

CONFIGURATION = """\
state_dir: {state_dir}
targets:
  {target}:
    engine: {{kind: embedded}}
    maximize: batch.tokens_per_s
    baseline: {{{knob}: {large}, step_token_budget: 64}}
    intents:
      live: {{class: interactive, slo: {{ttft_ms: 1000, tpot_ms: 50, attainment: 0.97}}}}
      batch: {{class: batch, slo: {{e2e_ms: 60000, attainment: 0.90}}}}
    knobs:
      default: observe
      {knob}: {{mode: auto, ladder: [{small}, {large}], safer: down}}
    rules:
      - {{id: slow, emergency: true, when: "live.attainment < 0.9", for: 20s, cooldown: 20s,
         propose: {{{knob}: down}}}}
guardrails:
  emergency_s: 80     # as long as a phase with chats
  freeze:             # always open: nothing may be tried, and emergency rules still act
    - {{days: [mon, tue, wed, thu, fri, sat, sun], begins: "00:00", ends: "00:00"}}
features: {{lateness_s: 3}}
engine: {{port: {chat}, control_port: {control}}}
ingest: {{port: {signals}}}
serve: {{port: {api}}}
"""


class System:
    """What a run needs of the product. ``folder``: its state, with the keys."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self._admin = product.caller(ports.url(ports.api), product.secret(folder, "admin"))
        body = {"name": "olga", "role": "operator", "targets": ["*"]}
        made = self._admin.post("/v1/keys", json=body).raise_for_status().json()
        self._operator = product.caller(ports.url(ports.api), made["key"])
        self._engine = product.caller(ports.url(ports.control), product.secret(folder, "control"))
        self.chat_url = ports.url(ports.chat)
        self.features = SqliteFeatures(folder / "features.db")
        self._forced: str | None = None

    def close(self) -> None:
        """Let go of files and connections."""
        for client in (self._admin, self._operator, self._engine):
            client.close()
        self.features.close()

    def model(self) -> str:
        """What the engine calls its model."""
        answer = httpx.get(f"{self.chat_url}/v1/models", timeout=15, trust_env=False)
        return str(answer.raise_for_status().json()["data"][0]["id"])

    def put(self, arm: Arm) -> None:
        """Put an arm in force, and wait until the engine shows it."""
        if arm.setting is not None:
            setting = {**msgspec.to_builtins(arm.setting)}
            body: dict[str, Any] = {"target": TARGET, "kind": "force", "knob": KNOB}
            body |= {"setting": {key: one for key, one in setting.items() if one is not None}}
            body |= {"expires_in_s": FORCE_S, "reason": f"benchmark: {arm.name}"}
            answer = self._operator.post("/v1/overrides", json=body)
            self._forced = answer.raise_for_status().json()["id"]
        elif self._forced is not None:
            at, why = f"/v1/overrides/{self._forced}", {"reason": f"benchmark: {arm.name}"}
            self._operator.request("DELETE", at, json=why).raise_for_status()
            self._forced = None
        self._wait_for(arm)

    def acts(self, *, since_us: int) -> list[str]:
        """Emergencies that acted since then, in words, oldest first."""
        query: dict[str, Any] = {"target": TARGET, "limit": 100}
        found = self._operator.get("/v1/policies", params=query).raise_for_status().json()["items"]
        return [
            f"{one['setting']['value']} {(one['applied_us'] - since_us) / 1e6:.0f} s in"
            for one in reversed(found)
            if one["emergency"] and (one["applied_us"] or 0) > since_us
        ]

    def _wait_for(self, arm: Arm) -> None:
        deadline_s = time.monotonic() + SETTLED_S
        while not self._shows(arm.setting):
            if time.monotonic() > deadline_s:
                raise TooLateError(f"the engine does not show {arm.words} after {SETTLED_S:g} s")
            time.sleep(POLL_S)

    def _shows(self, setting: Setting | None) -> bool:
        answer = self._engine.get("/v1/runtime_config").raise_for_status().json()
        now = next(one for one in answer["settings"] if one["knob"] == KNOB)
        if setting is None:
            return now.get("policy_id") != self._forced or self._forced is None
        if setting.law is not None:
            return now.get("law") is not None
        return now.get("law") is None and now["value"] == setting.value


def begin(programs: Programs, folder: Path) -> System:
    """Start everything, and wait until it is ready."""
    words = {"target": TARGET, "knob": KNOB, "small": SMALL, "large": LARGE}
    return System(folder, product.start(programs, folder, CONFIGURATION, **words))
