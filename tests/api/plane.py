"""A control plane over a real store, the real loop and a real settings book, in one process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from controller import keys
from controller.api.app import make_app
from controller.api.front import fronted
from controller.api.ports import Services
from controller.audit.desk import audit_desk
from controller.audit.settings import AuditSettings
from controller.erasing import Erasures
from controller.expecting import ExpectingStore
from controller.feedback import FeedbackOperations
from controller.inspection import Inspection
from controller.keys import Authenticator, KeyRequest, Tokens
from controller.layout import Layout
from controller.processes.first_start import bring_in_metrics
from controller.rules.firing import Timers
from controller.settings import Settings
from controller.store.port import ROLES, Role
from signals.pseudonyms import Pseudonyms
from signals.settings import FeatureSettings
from tests.api.promises import Promises
from tests.api.staging import Stage
from tests.loop.world import World


class Working:
    """A loop that is at work, or not, as the test says."""

    def __init__(self) -> None:
        self.why_not: str | None = None
        self.now = Timers()

    def ready(self) -> str | None:
        return self.why_not

    def timers(self, target: str) -> Timers:
        return self.now


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

    def __init__(self, folder: Path, *, tokens: Tokens | None = None, **world: Any) -> None:
        self.world = World(folder, quality=lambda cap, intent: 4 <= cap <= 8, **world)
        self.loop = Working()
        self.folder = folder
        self.stage = Stage(folder / "features.db")
        self.inspection = Inspection(lambda: {0: folder / "features.db"}, FeatureSettings())
        self._open = ExitStack()
        feedback = FeedbackOperations(
            self.world.store,
            self.stage,
            self.inspection,
            ("chat",),
            clock=self.world.clock_us,
        )
        settings = Settings(targets={"chat": self.world.declared.target}, state_dir=folder)
        self.services = Services(
            settings=settings,
            store=ExpectingStore(self.world.store),
            store_file=folder / "store.db",
            features=self.world.rows,
            inspection=self.inspection,
            bus=self.stage.status,
            operations=self.world.operations,
            feedback=feedback,
            erasures=Erasures(feedback, settings, Pseudonyms(b"k" * 32), clock=self.world.clock_us),
            authenticator=Authenticator(
                self.world.store, cache_s=2.0, now_us=self.world.clock_us, tokens=tokens
            ),
            loop=self.loop,
            fleet=self.world.fleet,
            audit=self._open.enter_context(
                audit_desk(
                    AuditSettings(), Layout(folder), self.world.store, clock=self.world.clock_us
                )
            ),
            clock=self.world.clock_us,
        )
        bring_in_metrics(self.services.settings, self.world.store)
        self.app = make_app(self.services)
        self.http = TestClient(fronted(self.app), raise_server_exceptions=False)
        self.promises = Promises.of(self.app)
        self.tokens: dict[str, str] = {role: self.key(role, role) for role in ROLES}
        self.tokens["other"] = self.key("other", "operator")

    def key(
        self,
        name: str,
        role: Role,
        *,
        targets: tuple[str, ...] = ("*",),
        intents: tuple[str, ...] = ("*",),
        team: str = "",
        expires_us: int | None = None,
    ) -> str:
        """A new key's token."""
        request = KeyRequest(
            name=name,
            role=role,
            targets=targets,
            intents=intents,
            kinds=("business",) if role == "producer" else (),
            team=team,
            expires_us=expires_us,
        )
        with self.world.store.write() as tx:
            return keys.create(tx, request, actor="test", at_us=1)[1]

    def call(
        self, who: str, method: str, path: str, body: object = None, **headers: str
    ) -> Answered:
        """One call under a role's key, or under a token; ``if_match="…"`` sends a header."""
        sent = {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.http.request(method, path, json=body, headers=sent)
        self.promises.check(method, path, answer)
        json = "json" in answer.headers.get("content-type", "") and answer.content
        lines = "ndjson" in answer.headers.get("content-type", "")
        decoded = answer.json() if json and not lines else answer.text
        return Answered(answer.status_code, decoded, dict(answer.headers))

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

    def restart(self) -> None:
        """Put new layers around the app: what they kept in memory is gone, the store is there."""
        self.http.close()
        self.http = TestClient(fronted(self.app), raise_server_exceptions=False)

    def close(self) -> None:
        """Let go of everything."""
        self.http.close()
        self.inspection.close()
        self.stage.close()
        self._open.close()
        self.world.store.close()
