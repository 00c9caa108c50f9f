"""The engines of the contract suite, and a client that starts each test from boot settings."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from policies.runtime_config import CONTROL_PATH
from tests.contract.engines import EngineUnderTest, bare, embedded, simulated
from tests.engine_telemetry.ingesting import wait

ENGINES: dict[str, tuple[Callable[[Any], Iterator[EngineUnderTest]], str]] = {
    "embedded": (embedded, "engine"),
    "bare": (bare, "empty_folder"),
    "simulated": (simulated, "empty_folder"),
}
"""Name -> (what makes an ``EngineUnderTest``, the fixture it is made from)."""

Config = dict[str, Any]


class Control:
    """The contract's two calls, as JSON."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self) -> Config:
        """What is in force."""
        answer = self.client.get(CONTROL_PATH)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def change(self, *settings: Config, **fields: Any) -> Config:
        """A change that expects what is in force, with an id of its own."""
        seen = self.get()
        return {
            "change_id": uuid.uuid4().hex,
            "epoch": seen["epoch"],
            "expected": f"{seen['incarnation']}:{seen['version']}",
            "settings": list(settings),
            "trial": None,
        } | fields

    def send(self, change: Config) -> httpx.Response:
        """PATCH, whatever the answer."""
        return self.client.patch(CONTROL_PATH, json=change)

    def patch(self, *settings: Config, **fields: Any) -> Config:
        """PATCH that must be applied."""
        answer = self.send(self.change(*settings, **fields))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def cap(self) -> Config:
        """The active cap as shown now."""
        return shown(self.get(), "active_cap")


def shown(config: Config, knob: str) -> Config:
    """One knob's observed setting."""
    return next(setting for setting in config["settings"] if setting["knob"] == knob)


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For engines that need nothing else."""
    return tmp_path_factory.mktemp("bare")


@pytest.fixture(scope="session", params=sorted(ENGINES))
def engine_under_test(request: pytest.FixtureRequest) -> Iterator[EngineUnderTest]:
    """Each registered engine in turn, started once."""
    make, needs = ENGINES[request.param]
    yield from make(request.getfixturevalue(needs))


@pytest.fixture
def control(engine_under_test: EngineUnderTest) -> Iterator[Control]:
    """Control of an idle engine in its boot settings, with no hold and no trial."""
    with engine_under_test.client() as client:
        control = Control(client)
        inherit = [
            {"knob": spec["name"], "scope": scope}
            for spec in control.get()["knobs"]
            for scope in spec["scopes"]
        ]
        control.patch(*inherit, hold=False)
        wait.until(lambda: engine_under_test.running() == 0, "the engine is idle")
        yield control
        control.patch(*inherit, hold=False)
