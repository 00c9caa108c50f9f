"""A control plane over a real store, the real loop and a real settings book, in one process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from controller import keys
from controller.api.access import ACCESS
from controller.api.app import make_app
from controller.api.ports import Services
from controller.feedback import FeedbackOperations
from controller.inspection import Inspection
from controller.keys import Authenticator, KeyRequest
from controller.processes.first_start import bring_in_metrics
from controller.settings import Settings
from controller.store.port import ROLES, Role
from signals.settings import FeatureSettings
from tests.api.staging import Stage
from tests.loop.world import World


class Working:
    """A loop that is at work, or not, as the test says."""

    def __init__(self) -> None:
        self.why_not: str | None = None

    def ready(self) -> str | None:
        return self.why_not


class Answered:
    """A status and a decoded body."""

    def __init__(self, status: int, body: Any, headers: dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class Plane:
    """The world of the loop's tests behind its control plane, with a key for each role."""

    def __init__(self, folder: Path, **world: Any) -> None:
        self.world = World(folder, quality=lambda cap, intent: 4 <= cap <= 8, **world)
        self.loop = Working()
        self.folder = folder
        self.stage = Stage(folder / "features.db")
        self.inspection = Inspection(lambda: {0: folder / "features.db"}, FeatureSettings())
        self.services = Services(
            settings=Settings(targets={"chat": self.world.declared.target}, state_dir=folder),
            store=self.world.store,
            store_file=folder / "store.db",
            features=self.world.rows,
            inspection=self.inspection,
            bus=self.stage.status,
            operations=self.world.operations,
            feedback=FeedbackOperations(
                self.world.store,
                self.stage,
                self.inspection,
                ("chat",),
                clock=self.world.clock_us,
            ),
            authenticator=Authenticator(self.world.store, cache_s=2.0),
            loop=self.loop,
            fleet=self.world.fleet,
            clock=self.world.clock_us,
        )
        bring_in_metrics(self.services.settings, self.world.store)
        self.app = make_app(self.services)
        self.http = TestClient(self.app, raise_server_exceptions=False)
        self.tokens: dict[str, str] = {role: self.key(role, role) for role in ROLES}
        self.tokens["other"] = self.key("other", "operator")

    def key(
        self,
        name: str,
        role: Role,
        *,
        targets: tuple[str, ...] = ("*",),
        team: str = "",
        expires_us: int | None = None,
    ) -> str:
        """A new key's token."""
        request = KeyRequest(
            name=name,
            role=role,
            targets=targets,
            kinds=("business",) if role == "producer" else (),
            team=team,
            expires_us=expires_us,
        )
        with self.world.store.write() as tx:
            return keys.create(tx, request, actor="test", at_us=1)[1]

    def call(self, who: str, method: str, path: str, body: object = None) -> Answered:
        """One call under a role's key, or under a token."""
        bearer = {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        answer = self.http.request(method, path, json=body, headers=bearer)
        self._must_be_documented(method, path, answer.status_code)
        json = "json" in answer.headers.get("content-type", "") and answer.content
        lines = "ndjson" in answer.headers.get("content-type", "")
        decoded = answer.json() if json and not lines else answer.text
        return Answered(answer.status_code, decoded, dict(answer.headers))

    def _must_be_documented(self, method: str, path: str, status: int) -> None:
        """Whatever a known route answers is among the codes that it describes."""
        bare = path.partition("?")[0]
        for known, template in ACCESS:
            if known == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), bare):
                described = self.app.openapi()["paths"][template][method.lower()]["responses"]
                assert str(status) in described, f"{method} {template} answered {status}"
                return

    def get(self, path: str) -> Answered:
        """As a viewer."""
        return self.call("viewer", "GET", path)

    def post(self, path: str, body: object = None, *, who: str = "operator") -> Answered:
        """As an operator, unless somebody else is named."""
        return self.call(who, "POST", path, body)

    def proposed(self, value: int = 16, *, who: str = "operator") -> Answered:
        """A change of ``active_cap`` proposed by hand."""
        body = {
            "target": "chat",
            "knob": "active_cap",
            "setting": {"value": value},
            "reason": "a test",
        }
        return self.post("/v1/policies", body, who=who)

    def approved(self, value: int = 16) -> Answered:
        """The same, approved by somebody else."""
        made = self.proposed(value)
        body = {"shown_digest": made["shown_digest"]}
        return self.post(f"/v1/policies/{made['id']}/approve", body, who="other")

    def close(self) -> None:
        """Let go of everything."""
        self.http.close()
        self.inspection.close()
        self.stage.close()
        self.world.store.close()
