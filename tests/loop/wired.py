"""The real loop and store before real HTTP control listeners, however many there are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stopping.bare_engine import BareEngine
from controller.baselines import bring_in_baseline
from controller.fleet import Fleet, Replica, monotonic_s
from controller.keys import wall_us
from controller.latch import Latch
from controller.looking import Looker
from controller.operations import Operations
from controller.serve import TargetLoop
from controller.state import Declared
from controller.store.sql import SqlStore, open_store
from controller.watching import Watched
from engine.adapters.http import HttpActuator
from engine.settings_in_force import Instant
from signals.errors import Conflict, Unavailable
from tests.cli.running import until
from tests.loop.plant import Rows
from tests.loop.world import declared

KEY = "k"
DEADLINE_S = 0.8


class Plant:
    """One target with these replicas. ``engines``: those of them that have no model."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str],
        engines: Sequence[BareEngine] = (),
        *,
        key: str = KEY,
        deadline_s: float = DEADLINE_S,
        routing: str = "other",
    ) -> None:
        self.engines = tuple(engines)
        self.declared: Declared = declared(routing=routing)
        self.store: SqlStore = open_store(f"sqlite:///{folder / 'store.db'}")
        self.actuators = [HttpActuator(url, key, timeout_s=3.0) for url in urls]
        replicas = [
            Replica(url, actuator, ours="ctl.", epoch=_epoch(actuator), mono=monotonic_s)
            for url, actuator in zip(urls, self.actuators, strict=True)
        ]
        self.fleet = Fleet(
            {"chat": replicas}, Latch(folder / "latch.json"), deadline_s=deadline_s, threads=32
        )
        self.loop = self._loop()
        self.operations = Operations(
            self.store,
            self.fleet,
            {"chat": self.declared},
            clock=wall_us,
            mono=time.monotonic,
            wake=lambda: None,
            lower=lambda target: self.loop.lower,
        )
        with self.store.write() as tx:
            bring_in_baseline(tx, "chat", self.declared.target, now_us=wall_us())

    def _loop(self) -> TargetLoop:
        rows = Rows(lambda: Instant(mono_s=time.monotonic(), wall_s=time.time()))
        watched = Watched(self.fleet, "chat", wait_s=0.2)
        looker = Looker(self.declared, rows, watched, lateness_s=2, rates=lambda name, of: {})
        return TargetLoop(
            self.declared,
            self.store,
            self.fleet,
            looker,
            ours="ctl.",
            clock=wall_us,
            entropy=bytes,
        )

    def tick(self) -> bool:
        """As the loop's thread does: a lost race is looked at again."""
        try:
            self.loop.tick()
        except Conflict:
            return False
        return True

    def caps(self) -> list[int]:
        return [engine.live.values["active_cap"] for engine in self.engines]

    def wished(self) -> bool:
        """Whether every replica has the newest pin's value."""
        with self.store.read() as tx:
            (newest, *_) = tx.overrides(target="chat", state="active")
        shown = [one.seen for one in self.fleet.of("chat")]
        caps = [None if one is None else one.setting("active_cap") for one in shown]
        return all(cap is not None and cap.policy_id == newest.id for cap in caps)

    def must_all_have(self, cap: int, *, within_s: float = 5.0) -> None:
        def there() -> bool:
            self.tick()
            return self.caps() == [cap] * len(self.engines)

        until(there, f"every replica has {cap}, not {self.caps()}", within_s=within_s)

    def close(self) -> None:
        self.fleet.close()
        for actuator in self.actuators:
            actuator.close()
        self.store.close()


def _epoch(actuator: HttpActuator) -> int:
    """One that the engine accepts: it may have had controllers before."""
    try:
        return max(1, actuator.read().epoch)
    except Unavailable:
        return 1
