"""A whole target in one thread and in no real time: the real loop, store and settings book.

Only the plant is synthetic: it answers requests in zero time, well or badly by the cap in force, so
that a test can say "cap 2 is bad" and see what the loop makes of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from controller.baselines import bring_in_baseline
from controller.config.guardrails import GuardrailSettings
from controller.config.sections import ServeSettings, TrialSettings
from controller.config.targets import TargetSettings
from controller.expecting import ExpectingStore
from controller.fleet import Fleet, Replica
from controller.latch import Latch
from controller.looking import Looker
from controller.operations import Operations
from controller.rules.firing import compile_rules
from controller.rules.settings import RuleSettings
from controller.serve import TargetLoop
from controller.state import Declared
from controller.store.address import StoreAddress, address_of
from controller.store.port import Principal, Tx
from controller.store.sql import SqlStore, open_store
from controller.trials import Trial
from engine.settings_in_force import Instant
from policies.policy import Policy
from policies.runtime_config import RuntimeConfig
from policies.settings import Setting
from signals.errors import Conflict
from signals.events import MICROS, StepMoments
from signals.features.model import (
    RequestRow,
    SecondRow,
)
from tests.loop.plant import START_S, Book, Rows

TICK_S = 0.1
CURVE = ((1, 0, 16_000), (8, 0, 22_000), (64, 0, 80_000), (1, 256, 90_000))

ADA = Principal(id="key_ada", name="ada", role="operator")
BOB = Principal(id="key_bob", name="bob", role="operator")

T = TypeVar("T")
Quality = Callable[[int, str], bool]
"""Whether a request of an intent is good under a cap."""


class World:
    """One target: run it with ``run(seconds)``, look at it through the store."""

    def __init__(
        self,
        folder: Path,
        *,
        quality: Quality,
        phase_s: float = 8.0,
        store: StoreAddress | None = None,
        replicas: int = 1,
        **trial: Any,
    ) -> None:
        self.now_s = 0.0
        self.quality = quality
        self.phase_s = phase_s
        self.folder = folder
        self.address = store or address_of(folder / "store.db")
        self.traffic = True
        self.races = 0
        self.faster_with_cap = True
        self.engine_ahead_s = 0.0
        self.engines = [Book(self.engine_instant, f"r{n}") for n in range(replicas)]
        self.engine = self.engines[0]
        self.rows = Rows(self.engine_instant)
        self.declared = declared(**trial)
        self.starts = 0
        self._known: tuple[SqlStore, int, dict[str, Any]] | None = None
        self.start_controller()

    def start_controller(self) -> None:
        """Start ``serve`` (again): everything in memory is new, the store is what it was."""
        self.starts += 1
        self.store: SqlStore = open_store(self.address)
        latch = Latch(self.folder / "latch.json")
        replicas = [
            Replica("book:", engine, ours="ctl.", epoch=self.starts, mono=lambda: self.now_s)
            for engine in self.engines
        ]
        self.fleet = OneThread({"chat": replicas}, latch)
        self.operations = Operations(
            ExpectingStore(self.store),
            self.fleet,
            {"chat": self.declared},
            clock=self.clock_us,
            mono=lambda: self.now_s,
            wake=lambda: None,
            lower=lambda target: self.loop.lower,
        )
        with self.store.write() as tx:
            bring_in_baseline(tx, "chat", self.declared.target, now_us=self.clock_us())
        looker = Looker(
            self.declared, self.rows, replicas[0], lateness_s=2, rates=lambda name, intents: {}
        )
        self.loop = TargetLoop(
            self.declared,
            self.store,
            self.fleet,
            looker,
            ours="ctl.",
            clock=self.clock_us,
            mono=lambda: self.now_s,
            entropy=self._entropy,
        )

    def instant(self) -> Instant:
        return Instant(mono_s=self.now_s, wall_s=START_S + self.now_s)

    def engine_instant(self) -> Instant:
        """The engine's own clocks; its wall clock may be off."""
        wall_s = START_S + self.now_s + self.engine_ahead_s
        return Instant(mono_s=self.now_s, wall_s=wall_s)

    def clock_us(self) -> int:
        return round((START_S + self.now_s) * MICROS)

    def run(
        self, seconds: float, *, until: Callable[[], bool] | None = None, loop: bool = True
    ) -> None:
        """Let time pass in ticks; stops early when ``until`` says so."""
        self._known = (self.store, self.store.writes, {})
        try:
            for _ in range(round(seconds / TICK_S)):
                self.now_s = round(self.now_s + TICK_S, 3)
                self._traffic()
                if loop:
                    self._tick()
                if until is not None and until():
                    return
        finally:
            self._known = None

    def _once(self, what: str, read: Callable[[Tx], T]) -> T:
        """What the store says; while time passes, read again only when something was written."""
        known = self._known
        if known is None or known[:2] != (self.store, self.store.writes):
            known = (self.store, self.store.writes, {})
            self._known = None if self._known is None else known
        if what not in known[2]:
            with self.store.read() as tx:
                known[2][what] = read(tx)
        found: T = known[2][what]
        return found

    def _tick(self) -> None:
        """As the loop's thread does: a lost race is looked at again in the next tick."""
        try:
            self.loop.tick()
        except Conflict:
            self.races += 1

    def policy(self, policy_id: str) -> Policy:
        return self._once(policy_id, lambda tx: tx.policy(policy_id))

    def policies(self, *states: str) -> list[Policy]:
        found = self._once("policies", lambda tx: list(tx.policies(target="chat")))
        return [p for p in found if not states or p.state in states]

    def trial(self) -> Trial:
        return self._once("trial", lambda tx: tx.trials(target="chat", limit=1))[0]

    def actions(self) -> list[str]:
        return self._once("actions", lambda tx: [entry.action for entry in tx.audit()])

    def approved(self, setting: Setting) -> Policy:
        """A change proposed by ada and approved by bob."""
        policy = self.operations.propose("chat", "active_cap", setting, "a test", by=ADA)
        return self.operations.approve(policy.id, policy.shown_digest, by=BOB)

    def cap(self, engine: Book | None = None) -> int:
        """What an engine (the first) has now, whether it can be reached or not."""
        engine = engine or self.engine
        engine.book.pass_time(self.engine_instant())
        return engine.book.values()["active_cap"]

    def _entropy(self, n: int) -> bytes:
        return hashlib.sha256(f"{self.now_s}".encode()).digest()[:n]

    def _traffic(self) -> None:
        """Ten requests a second: live ones in every other phase, batch always; routed by chance."""
        if not self.traffic:
            return
        busy = (self.now_s // self.phase_s) % 2 == 0
        tick = round(self.now_s / TICK_S)
        intent = "live" if busy and tick % 3 == 0 else "batch"
        if intent == "live":
            self.engine.meter.note("interactive", tokens=40, now_s=self.now_s)
        routed = hashlib.sha256(f"to {tick}".encode()).digest()[0] % len(self.engines)
        self.rows.requests.append(self._request(intent, tick, self.engines[routed]))
        if tick % 10 == 0:
            self.rows.second_rows += [self._second(busy, engine) for engine in self.engines]

    def _request(self, intent: str, tick: int, engine: Book) -> RequestRow:
        at_us = round(self.engine_instant().wall_s * MICROS)
        stamp, cap = engine.stamp, self.cap(engine)
        good = self.quality(cap, intent)
        took_us = 200_000 if good else 8_000_000
        trial = stamp.trial
        return RequestRow(
            request_id=f"chat.{tick}",
            target="chat",
            replica=engine.replica,
            incarnation=stamp.incarnation,
            version=stamp.version,
            digest=stamp.digest,
            policies=stamp.policies,
            trial="" if trial is None else trial.id,
            block=-1 if trial is None else trial.block,
            arm=None if trial is None else trial.arm,
            intent=intent,
            class_="interactive" if intent == "live" else "batch",
            arrival_us=at_us,
            deadline_us=at_us + 2 * MICROS,
            finished_us=at_us + took_us,
            status="ok",
            prompt_tokens=20,
            output_tokens=16,
            max_tokens=16,
            queue_us=0,
            ttft_us=took_us // 2,
            tpot_us=20_000,
            good=good,
            preemptions=0,
            error=None,
            external_id=None,
            session_id=None,
        )

    def _second(self, busy: bool, engine: Book) -> SecondRow:
        to_us = round(self.engine_instant().wall_s * MICROS)
        stamp, cap = engine.stamp, self.cap(engine)
        trial = stamp.trial
        step_us = 15_000 + 1_000 * cap if self.faster_with_cap else 10_000 * cap
        n = MICROS // step_us
        return SecondRow(
            target="chat",
            replica=engine.replica,
            incarnation=stamp.incarnation,
            from_us=to_us - MICROS,
            to_us=to_us,
            digest=stamp.digest,
            trial="" if trial is None else trial.id,
            block=-1 if trial is None else trial.block,
            arm=None if trial is None else trial.arm,
            output_tokens={"batch": n * cap},
            arrivals={"live": 3 if busy else 0, "batch": 7},
            offered_tokens={"live": 120 if busy else 0, "batch": 200},
            waiting={"batch": 20},
            steps=StepMoments(
                n=n,
                b=n * cap,
                f=0,
                t=n * step_us,
                bb=n * cap * cap,
                bt=n * cap * step_us,
                tt=n * step_us * step_us,
            ),
            knobs={"active_cap": cap, "step_token_budget": 256},
        )


class OneThread(Fleet):
    """Looks at its replicas one after the other, so that a world is the same every time."""

    def look(
        self, replicas: Iterable[Replica], *, max_age_s: float, wait_s: float | None = None
    ) -> list[RuntimeConfig | None]:
        del wait_s
        return [one.read(max_age_s=max_age_s) for one in replicas]


def declared(
    *,
    mode: str | None = None,
    rules: list[dict[str, object]] | None = None,
    guardrails: GuardrailSettings | None = None,
    routing: str = "other",
    **trial: Any,
) -> Declared:
    """A target like the README's, with short blocks."""
    target = TargetSettings.model_validate(
        {
            "maximize": "batch.tokens_per_s",
            "on_kill": "last_stable",
            "engine": {"routing": routing},
            "intents": {
                "live": {
                    "class": "interactive",
                    "slo": {"ttft_ms": 1000, "tpot_ms": 50, "attainment": 0.9},
                },
                "batch": {"class": "batch", "slo": {"e2e_ms": 2000, "attainment": 0.9}},
            },
            "baseline": {"active_cap": 8},
            "knobs": {"active_cap": {"mode": mode, "ladder": [2, 4, 8, 16, 32, 64]}},
        }
    )
    short = {"alpha": 0.05, "washout_s": 2.0, "block_s": 10.0, "min_requests": 5, "max_units": 12}
    return Declared(
        name="chat",
        target=target,
        rules=compile_rules(
            [RuleSettings.model_validate(rule) for rule in rules or []],
            intents=target.intents,
            metrics=[],
        ),
        trial=TrialSettings(**{**short, **trial}),
        guardrails=guardrails or GuardrailSettings(),
        serve=ServeSettings(foreign_s=60),
    )
