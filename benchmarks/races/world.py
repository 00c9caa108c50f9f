"""One round: an engine, ``serve``, fifty operators, kills; then everything is compared."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
from msgspec import Struct

from benchmarks.free_port import free_port
from benchmarks.pipeline import ROOT, Pipeline, Shape
from benchmarks.races.board import Board
from benchmarks.races.books import Books
from benchmarks.races.check import compare
from benchmarks.races.nursery import Nursery
from benchmarks.races.operators import Operator, Person
from benchmarks.races.plan import Kill, Plan
from benchmarks.races.settling import Settling
from controller import keys
from controller.bootstrap import store_address
from controller.keys import KeyRequest
from controller.latch import Latch
from controller.store.port import Role
from controller.store.sql import SqlStore, open_store
from policies.audit import Entry
from signals.features.store import FeatureStore

TARGET: Final = "chat"
READY_S: Final = 10.0
ENDS_S: Final = 20.0
ANSWERS_S: Final = 3.0
"""A kill waits no longer for the acts before it."""
CLOSERS: Final = 2
POLL_S: Final = 0.01
FREE: Final = {
    "step": 64,
    "ladder_steps": 16,
    "dwell_s": 0,
    "flip_s": 0,
    "cooldown_s": 0,
    "cooldown_max_s": 0,
    "steps_per_hour": 10_000,
    "max_per_hour": 1000,
    "settle_s": 0,
}
"""Guardrails that let people race: what they deny by time would leave nothing to race for."""

ROLES: Final[tuple[Role, ...]] = (*("operator",) * 7, "approver", "admin", "viewer")
"""In turns."""
PAGE: Final = 1000


class Outcome(Struct, frozen=True, kw_only=True):
    """How a round went. ``acts``: by outcome. ``slowest_ready_s``: of all starts."""

    plan: Plan
    kills: int
    acts: Mapping[str, int]
    kinds: Mapping[str, int]
    policies: int
    entries: int
    ends: Mapping[str, int]
    slowest_ready_s: float
    faults: tuple[str, ...]
    wall_s: float


class World:
    """The processes of a round, and the people."""

    def __init__(self, folder: Path, plan: Plan, opened: ExitStack, url: str | None) -> None:
        self._plan = plan
        self.books = Books()
        port, engine_port = free_port(), free_port()
        self._pipeline = opened.enter_context(Pipeline(folder, _shape(port, engine_port, url)))
        layout = self._pipeline.layout
        FeatureStore(layout.features_db).close()
        opened.enter_context(_engine(engine_port, layout.key("control").read_text().strip()))
        self._log = self._pipeline.log("serve")
        self._nursery = opened.enter_context(Nursery(folder / "trimtab.yaml", self._log))
        self.url = f"http://127.0.0.1:{port}"
        self.people = self._people(opened)
        self.closers = self.people[:CLOSERS]
        self.board = Board(self.people[0].http, TARGET, self.books)
        self.operators = [
            Operator(n, person, self.board.view, self.books, Random(f"{plan.seed} {n}"))
            for n, person in enumerate(self.people[CLOSERS:])
        ]
        self.pid = self._nursery.start()
        self.slowest_ready_s = 0.0

    def start(self) -> None:
        """Everything up, then everybody at once."""
        self.wait_ready()
        for thread in (self.board, *self.operators):
            thread.start()

    def kill(self, kill: Kill) -> None:
        """One kill; ``serve`` is started again at once, as its supervisor would."""
        if kill.acts is not None:
            self.wait_ready()
            wanted = self.books.answered + kill.acts
            until(lambda: self.books.answered >= wanted, ANSWERS_S)
        time.sleep(kill.after_s)
        if self._nursery.ended(self.pid):
            self.books.fault(f"serve ended by itself:\n{self.tail()}")
        self._nursery.kill(self.pid)
        self.pid = self._nursery.start()

    def wait_ready(self) -> None:
        """Until ``/readyz`` says so; a fault where it does not in time."""
        began_s = time.monotonic()
        with httpx.Client(base_url=self.url, timeout=2, trust_env=False) as http:
            if not until(lambda: _ready(http), READY_S):
                self.books.fault(f"not ready within {READY_S:g} s:\n{self.tail()}")
        self.slowest_ready_s = max(self.slowest_ready_s, time.monotonic() - began_s)

    def quiet(self) -> None:
        """Nobody acts any more."""
        for operator in self.operators:
            operator.end()
        for operator in self.operators:
            operator.join(ENDS_S)
            if operator.is_alive():
                self.books.fault(f"{operator.name} still waits for an answer")
        self.board.end()

    def stop(self) -> None:
        """A graceful end, after which nobody has the store."""
        code = self._nursery.stop(self.pid)
        if code != 0:
            self.books.fault(f"serve ended with {code}:\n{self.tail()}")

    def entries(self) -> list[Entry]:
        """The whole audit, read from the store itself; opening it shows that no lock is left."""
        store = self._store()
        found: list[Entry] = []
        try:
            with store.write() as tx:
                tx.set_note("races", "read")
            with store.read() as tx:
                while page := tx.audit(after=len(found) - 1, limit=PAGE):
                    found += page
        finally:
            store.close()
        return found

    def _store(self) -> SqlStore:
        settings = self._pipeline.settings
        return open_store(store_address(settings), settings.store)

    def latched(self) -> bool:
        """Whether the latch stands."""
        return bool(Latch(self._pipeline.layout.latch).read())

    def tail(self) -> str:
        """What ``serve`` said last."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-25:])

    def _people(self, opened: ExitStack) -> list[Person]:
        """Two who settle things in the end, and the operators."""
        store = self._store()
        found = []
        with store.write() as tx:
            for n in range(self._plan.operators + CLOSERS):
                role = "admin" if n < CLOSERS else ROLES[n % len(ROLES)]
                principal, token = keys.create(
                    tx,
                    KeyRequest(name=f"person-{n}", role=role),
                    actor="races",
                    at_us=keys.wall_us(),
                )
                http = opened.enter_context(
                    httpx.Client(
                        base_url=self.url,
                        headers={"Authorization": f"Bearer {token}"},
                        timeout=10,
                        trust_env=False,
                        verify=False,
                    )
                )
                found.append(Person(id=principal.id, http=http))
        store.close()
        return found


def until(so: Callable[[], bool], within_s: float) -> bool:
    """Whether it was so in time."""
    deadline_s = time.monotonic() + within_s
    while not so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def _ready(http: httpx.Client) -> bool:
    try:
        return http.get("/readyz").is_success
    except httpx.HTTPError:
        return False


@contextmanager
def _engine(port: int, key: str) -> Iterator[None]:
    words = [f"--port={port}", f"--key={key}", f"--target={TARGET}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.races.engine", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise ConnectionError("the engine did not start")
        yield
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def _shape(port: int, engine_port: int, url: str | None) -> Shape:
    more: dict[str, Any] = {
        "targets": {
            TARGET: {
                "engine": {"control_urls": [f"http://127.0.0.1:{engine_port}"]},
                "maximize": "batch.tokens_per_s",
                "intents": {
                    "live": {"class": "interactive", "slo": {"ttft_ms": 50, "tpot_ms": 1}},
                    "batch": {"class": "batch", "slo": {"e2e_ms": 100}},
                },
            }
        },
        "guardrails": FREE,
        "serve": {"port": port, "tick_ms": 20, "reconcile_ms": 100},
        "trial": {
            "block_s": 1.0,
            "washout_s": 0.1,
            "min_requests": 1,
            "approval_ttl_s": 3,
            "proposal_ttl_s": 8,
        },
    }
    if url is not None:
        more["store"] = {"url": url}
    return Shape(targets=(), more=more)


def live_through(folder: Path, plan: Plan, *, url: str | None = None) -> Outcome:
    """One round, from the first process to the comparison. ``url``: of an empty database."""
    began_s = time.monotonic()
    with ExitStack() as opened:
        world = World(folder, plan, opened, url)
        world.start()
        for kill in plan.kills:
            world.kill(kill)
        world.wait_ready()
        world.quiet()
        settling = Settling(world.closers, TARGET, world.books)
        ends = settling.settle()
        settling.still_alive()
        settling.agrees(latched=world.latched())
        world.stop()
        entries = world.entries()
        acts = world.books.acts
        faults = [*world.books.faults, *compare(acts, entries, [p.id for p in world.people])]
        return Outcome(
            plan=plan,
            kills=len(plan.kills),
            acts=Counter[str](act.outcome for act in acts),
            kinds=Counter[str](act.kind for act in acts if act.outcome == "accepted"),
            policies=len(ends),
            entries=len(entries),
            ends=Counter[str](ends.values()),
            slowest_ready_s=round(world.slowest_ready_s, 2),
            faults=tuple(faults),
            wall_s=round(time.monotonic() - began_s, 2),
        )
