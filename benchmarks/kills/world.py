"""One round: real processes, load, blows, then everything is drained and compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from benchmarks.broker import Broker
from benchmarks.kills.check import Found, compare
from benchmarks.kills.clients import Client, Engine, Shop
from benchmarks.kills.plan import MEMBERS, Blow, Plan
from benchmarks.kills.proxy import Proxy
from benchmarks.kills.tally import METRICS, Books, Tally
from benchmarks.pipeline import Pipeline, Shape, Stage
from signals.bus.port import partition_of
from signals.errors import Unavailable
from signals.features.reader import SqliteFeatures

PARTITIONS: Final = 4
TARGETS: Final = {"sqlite": ("chat", "code"), "kafka": ("chat", "code", "docs", "mail", "plan")}
SHOPS: Final = ("shop", "desk")
SESSION_MS: Final = 2_000
BEYOND_S: Final = 1.5
"""A stage stands still for its session and so much more: by then another has its partitions."""
CUTS: Final = 2
READY_S: Final = 10.0
ANSWERS_S: Final = 60.0
DRAIN_S: Final = 60.0
POLL_S: Final = 0.1


class Outcome(Struct, frozen=True, kw_only=True):
    """How a round went. ``ended``: processes that ended without being killed."""

    plan: Plan
    kinds: Mapping[str, int]
    kills: int
    cuts: int
    ended: int
    acknowledged: int
    unknown: int
    conflicts: int
    tries: int
    lost: int
    twice: int
    faults: tuple[str, ...]
    drain_s: float
    wall_s: float


class World:
    """The processes of a round, and those who post."""

    def __init__(self, folder: Path, plan: Plan, opened: ExitStack) -> None:
        self._plan = plan
        self._stages: dict[str, Stage] = {"ingest": "ingest"}
        names = MEMBERS if plan.bus == "kafka" else ("features",)
        self._stages |= dict.fromkeys(names, "features")
        self.proxy = opened.enter_context(Proxy()) if plan.bus == "kafka" else None
        if self.proxy is not None:
            broker = opened.enter_context(Broker(advertised=self.proxy.port))
            self.proxy.upstream = broker.port
        self._pipeline = opened.enter_context(Pipeline(folder, self._shape()))
        self.tally = Tally()
        self.ended: list[str] = []
        self._files = {
            number: SqliteFeatures(self._pipeline.layout.features(number))
            for number in range(PARTITIONS)
        }
        for file in self._files.values():
            opened.callback(file.close)
        self.engines, self.shops = self._clients()

    @property
    def clients(self) -> list[Client]:
        """All who post."""
        return [*self.engines, *self.shops]

    def start(self) -> None:
        """Everything up, then load."""
        for name, stage in self._stages.items():
            self._pipeline.start(stage, name=name)
        self._pipeline.wait("ingest to be ready", self._pipeline.ingest_ready)
        for client in self.clients:
            client.start()

    def strike(self, blow: Blow) -> None:
        """One blow; its victims are started again at once, as their supervisor would."""
        deadline_s = time.monotonic() + READY_S
        while blow.ready and not self._pipeline.ingest_ready() and time.monotonic() < deadline_s:
            self.revive()
            time.sleep(POLL_S)
        time.sleep(blow.after_s)
        self.revive()
        if blow.kind == "cut":
            assert self.proxy is not None
            for _ in range(CUTS):
                self.proxy.arm()
        elif blow.kind == "pause":
            self._pipeline.pause(blow.names[0])
            time.sleep(SESSION_MS / 1000 + BEYOND_S)
            self._pipeline.go_on(blow.names[0])
        else:
            for name in blow.names:
                self._pipeline.kill(name)
            for name in blow.names:
                self._pipeline.start(self._stages[name], name=name)

    def revive(self) -> None:
        """Start again what ended by itself, and remember that it did."""
        for name in self._pipeline.ended():
            self.ended.append(f"{name} ended by itself:\n{self._pipeline.tail(name)}")
            self._pipeline.kill(name)
            self._pipeline.start(self._stages[name], name=name)

    def quiet(self) -> list[str]:
        """Nothing is cut any more; shops finish, then engines. Faults of those who do not."""
        if self.proxy is not None:
            self.proxy.disarm()
        faults = [*self._finish(self.shops), *self._finish(self.engines)]
        return faults + [client.fault for client in self.clients if client.fault is not None]

    def drained(self) -> bool:
        """Whether the stages have everything behind them: each target's last second is there."""
        self.revive()
        try:
            return all(
                self.features(engine.target).watermark_us(engine.target) >= engine.final_us
                for engine in self.engines
            )
        except Unavailable:
            return False

    def features(self, target: str) -> SqliteFeatures:
        """The features of a target."""
        many = PARTITIONS if self._plan.bus == "kafka" else 1
        return self._files[partition_of(target, many)]

    def tails(self) -> str:
        """What the processes said last."""
        return self._pipeline.tails()

    def _finish(self, clients: list[Any]) -> list[str]:
        for client in clients:
            client.end()
        deadline_s = time.monotonic() + ANSWERS_S
        while any(client.is_alive() for client in clients) and time.monotonic() < deadline_s:
            self.revive()
            time.sleep(POLL_S)
        late = [client.name for client in clients if client.is_alive()]
        for client in clients:
            client.abort()
        return [f"{name} had no answer for {ANSWERS_S:g} s" for name in late]

    def _clients(self) -> tuple[list[Engine], list[Shop]]:
        seed, port, tally = self._plan.seed, self._pipeline.port, self.tally
        targets = list(TARGETS[self._plan.bus])
        engines = [
            Engine(target, port, self._pipeline.key(f"engine_{target}", "basic"), tally, rng)
            for target in targets
            for rng in [Random(f"{seed} {target}")]
        ]
        shops = [
            Shop(targets, name, self._pipeline.key(name, "business"), port, tally, rng)
            for name in SHOPS
            for rng in [Random(f"{seed} {name}")]
        ]
        return engines, shops

    def _shape(self) -> Shape:
        kafka = None
        if self.proxy is not None:
            kafka = {
                "bootstrap": [f"127.0.0.1:{self.proxy.port}"],
                "partitions": PARTITIONS,
                "replication": 1,
                "allow_single_copy": True,
                "session_timeout_ms": SESSION_MS,
                "heartbeat_ms": SESSION_MS // 4,
                "request_timeout_ms": 4_000,
                "fetch_wait_ms": 10,
            }
        return Shape(
            targets=TARGETS[self._plan.bus],
            bus=self._plan.bus,
            kafka=kafka,
            metrics=METRICS,
            more={"features": {"backoff_max_s": 1.0}},
        )


@contextmanager
def world(folder: Path, plan: Plan) -> Iterator[World]:
    """A world whose processes are all gone afterwards."""
    with ExitStack() as opened:
        made = World(folder, plan, opened)
        for client in made.clients:
            opened.callback(client.abort)
        yield made


def live_through(folder: Path, plan: Plan) -> Outcome:
    """One round, from the first process to the comparison."""
    began_s = time.monotonic()
    with world(folder, plan) as round_:
        round_.start()
        for blow in plan.blows:
            round_.strike(blow)
        faults = round_.quiet()
        quiet_s = time.monotonic()
        while not (drained := round_.drained()) and time.monotonic() < quiet_s + DRAIN_S:
            time.sleep(POLL_S)
        drain_s = time.monotonic() - quiet_s
        if not drained:
            faults.append(f"not drained within {DRAIN_S:g} s\n{round_.tails()}")
        books = round_.tally.books()
        found = _settled(round_, books)
        kinds = Counter[str](blow.kind for blow in plan.blows)
        return Outcome(
            plan=plan,
            kinds=kinds,
            kills=plan.kills,
            cuts=round_.proxy.cuts if round_.proxy is not None else 0,
            ended=len(round_.ended),
            acknowledged=books.acknowledged,
            unknown=sum(state == "unknown" for state in books.states.values()),
            conflicts=len(books.conflicts),
            tries=sum(client.tries for client in round_.clients),
            lost=found.lost,
            twice=found.twice,
            faults=(*faults, *found.faults, *round_.ended),
            drain_s=round(drain_s, 2),
            wall_s=round(time.monotonic() - began_s, 2),
        )


def _settled(round_: World, books: Books) -> Found:
    """The comparison, once more when it is not clean: an unknown post may still be on its way."""
    found = compare(books, round_.features)
    if found.faults:
        time.sleep(2.0)
        round_.revive()
        found = compare(books, round_.features)
    return found
