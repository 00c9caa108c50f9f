"""One target, lived through: the production loop at every tick of a simulated fleet's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from controller.backtest.features import SimulatedFeatures, Users
from controller.baselines import bring_in_baseline
from controller.expecting import ExpectingStore
from controller.fleet import Fleet, Replica
from controller.latch import Latch
from controller.looking import Looker
from controller.operations import Operations
from controller.serve import TargetLoop
from controller.state import Declared
from controller.store.address import address_of
from controller.store.port import Principal
from controller.store.sql import open_store
from controller.trials import Trial
from engine.simulated.fleet import Fleet as SimulatedFleet
from engine.simulated.replica import Replica as SimulatedReplica
from policies.knobs import TARGET_SCOPE
from policies.policy import Policy
from policies.runtime_config import Patch, RuntimeConfig
from policies.settings import Setting
from signals.errors import Conflict
from signals.events import MICROS
from signals.settings import MetricSettings

TICK_S = 0.5
LATENESS_S = 2
KEPT_S = 7200
"""Older records are forgotten: a long life takes bounded room. No block is as long."""
EPOCH = 1
OURS = "ctl."

PROPOSER = Principal(id="key_proposer", name="proposer", role="operator")
APPROVER = Principal(id="key_approver", name="approver", role="operator")
SECOND = Principal(id="key_second", name="second", role="approver")


class SimulatedActuator:
    """An ``Actuator`` over one replica of a simulated fleet."""

    def __init__(self, replica: SimulatedReplica) -> None:
        self._replica = replica

    def read(self, *, after_seq: int = -1) -> RuntimeConfig:
        """As the contract says. Raises ``Unavailable`` while it is down."""
        return self._replica.view(after_seq=after_seq)

    def patch(self, patch: Patch) -> RuntimeConfig:
        """As the contract says."""
        return self._replica.patch(patch)


class Backtest:
    """A controller beside a fleet. ``folder`` is for its store and latch; the caller removes it.

    ``users``: what they say of each request; ``metrics``: declared ones, by which that is read.

    Begun on a folder that another left, it goes on from there, as after a restart. The same
    arguments give the same life, but for the ids of what persons do.
    """

    def __init__(
        self,
        declared: Declared,
        fleet: SimulatedFleet,
        folder: Path,
        *,
        seed: int,
        tick_s: float = TICK_S,
        users: Users | None = None,
        metrics: Mapping[str, MetricSettings] | None = None,
    ) -> None:
        self.declared = declared
        self.fleet = fleet
        self.lost_races = 0
        self._now_us = fleet.now_us
        self._tick_us = round(tick_s * MICROS)
        self._rng = Random(seed)
        self._store = open_store(address_of(folder / "store.db"))
        self._features = SimulatedFeatures(fleet, users)
        replicas = [self._replica(name) for name in fleet.replicas]
        engines = Fleet({declared.name: replicas}, Latch(folder / "latch.json"))
        self._loop = self._looping(engines, replicas[0])
        self.operations = Operations(
            ExpectingStore(self._store),
            engines,
            {declared.name: declared},
            clock=self.clock_us,
            mono=self._mono_s,
            wake=self._loop.wake,
            lower=lambda target: self._loop.lower,
        )
        with self._store.write() as tx:
            bring_in_baseline(tx, declared.name, declared.target, now_us=self.clock_us())
            for name, metric in (metrics or {}).items():
                tx.declare(name, metric, managed_by="file", actor="file", at_us=self.clock_us())

    def run(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Let time pass, a tick at a time; end early once ``until`` says so."""
        ends_us = self._now_us + round(seconds * MICROS)
        while self._now_us < ends_us and not (until is not None and until()):
            self._now_us += self._tick_us
            self.fleet.run(self._now_us)
            self._step()
            self._forget()

    def approved(
        self, knob: str, setting: Setting, reason: str, *, scope: str = TARGET_SCOPE
    ) -> Policy:
        """A change that one person proposed and as many others approved as it takes, now."""
        name = self.declared.name
        policy = self.operations.propose(name, knob, setting, reason, by=PROPOSER, scope=scope)
        for approver in (APPROVER, SECOND)[: policy.approvals_needed]:
            policy = self.operations.approve(policy.id, policy.shown_digest, by=approver)
        return policy

    def policies(self, *states: str) -> list[Policy]:
        """Those in one of these states (none named: all), newest first."""
        with self._store.read() as tx:
            found = tx.policies(target=self.declared.name)
        return [policy for policy in found if not states or policy.state in states]

    def trials(self) -> Sequence[Trial]:
        """All, newest first."""
        with self._store.read() as tx:
            return tx.trials(target=self.declared.name)

    def actions(self) -> list[str]:
        """What the audit says was done, in order."""
        with self._store.read() as tx:
            return [entry.action for entry in tx.audit(limit=10_000)]

    def clock_us(self) -> int:
        """Now, in the fleet's time."""
        return self._now_us

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _replica(self, name: str) -> Replica:
        actuator = SimulatedActuator(self.fleet.replica(name))
        return Replica(f"sim:{name}", actuator, ours=OURS, epoch=EPOCH, mono=self._mono_s)

    def _looping(self, engines: Fleet, first: Replica) -> TargetLoop:
        looker = Looker(
            self.declared,
            self._features,
            first,
            lateness_s=LATENESS_S,
            rates=lambda name, intents: {},
        )
        return TargetLoop(
            self.declared,
            self._store,
            engines,
            looker,
            ours=OURS,
            clock=self.clock_us,
            mono=self._mono_s,
            entropy=self._rng.randbytes,
        )

    def _step(self) -> None:
        """As the loop's thread does: a lost race is looked at again in the next tick."""
        try:
            self._loop.tick()
        except Conflict:
            self.lost_races += 1

    def _mono_s(self) -> float:
        return self._now_us / MICROS

    def _forget(self) -> None:
        if self._now_us % (60 * MICROS) < self._tick_us:
            self.fleet.forget(self._now_us - KEPT_S * MICROS)
