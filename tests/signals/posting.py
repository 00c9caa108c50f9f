"""An ingest application in this process with a clock that stands, and what reaches its bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi.testclient import TestClient

from signals.bus.memory import MemoryBus
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.events import Signal
from signals.ingest.app import make_app
from signals.ingest.keys import Producer, StaticKeys, sha256_hex
from signals.settings import IngestSettings, MetricSettings
from tests.signals.making import METRICS, T0_US

DECLARED = METRICS | {
    "edits": MetricSettings(type="count", high=1000),
    "dwell": MetricSettings(type="duration", high=3600),
}
TARGETS = ("chat", "code")
EVERYTHING = frozenset({"basic", "semantic", "business", "command"})
PRODUCERS = {
    "all-key": Producer(name="all", kinds=EVERYTHING),
    "star-key": Producer(name="star", kinds=frozenset({"*"})),
    "shop-key": Producer(name="shop", kinds=frozenset({"business"})),
    "copied-key": Producer(
        name="copied", kinds=frozenset({"business"}), names=frozenset({"copied"})
    ),
    "chat-key": Producer(name="chat", kinds=EVERYTHING, targets=frozenset({"chat"})),
    "gone-key": Producer(name="gone", kinds=EVERYTHING, targets=frozenset({"retired"})),
    "slow-key": Producer(name="slow", kinds=EVERYTHING, rate_per_s=10.0),
}
KEYS = StaticKeys({sha256_hex(token): producer for token, producer in PRODUCERS.items()})


class Ingest:
    """The application without a network: ``post`` answers, ``arrived`` says what is new."""

    def __init__(self, **settings: float) -> None:
        self.now_us = T0_US
        self.bus = MemoryBus()
        self._seen = 0
        app = make_app(
            bus=self.bus,
            keys=KEYS,
            definitions=StaticDefinitions(DECLARED),
            targets=TARGETS,
            settings=IngestSettings.model_validate(settings),
            clock=lambda: self.now_us,
        )
        self._client = TestClient(app)

    def post(
        self,
        body: Any,
        content_type: str = "application/json",
        *,
        key: str = "all-key",
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """One post; anything but bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"Content-Type": content_type, "Authorization": f"Bearer {key}"}
        return self._client.post("/v1/signals", content=content, headers=sent | dict(headers or {}))

    def arrived(self) -> list[Signal]:
        """The signals that have reached the bus since this was asked last."""
        entries = self.bus.read(after=self._seen, limit=100_000)
        self._seen += len(entries)
        return [decode(entry.body) for entry in entries]

    def metrics(self) -> str:
        return self._client.get("/metrics").text
