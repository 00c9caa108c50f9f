"""What is to be lived: a path of load and the trials on it. Each can have a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.judging import azure, plans
from benchmarks.judging.paths import Change, Path, one_engine, two_replicas
from benchmarks.judging.rivals import alarms
from benchmarks.judging.trying import Outcome, try_out
from benchmarks.queue_model import LIVE, World
from controller.trials import Design, TrialPlan
from signals.events import MICROS

HOUR_S = 3600


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """One path of a cell, with ``coins`` trials on it. ``slower``: one replica is 3 % slower.

    ``rarest_loss``: as in the plan.
    """

    world: str
    design: Design
    seed: int
    coins: int
    slower: bool = False
    factor: float = 1.0
    law: bool = False
    rarest_loss: float | None = None

    @property
    def cell(self) -> str:
        """The cell that it belongs to."""
        replicas = ", one replica 3 % slower" if self.slower else ""
        effect = "a law" if self.law else "" if self.factor == 1 else f"{self.factor - 1:+.0%}"
        rare = "" if self.rarest_loss is None else f", losses in {self.rarest_loss:.0%} excluded"
        return f"{self.world}, {self.design}{replicas}{effect and ': '}{effect}{rare}"

    @property
    def null(self) -> bool:
        """Whether the candidate changes nothing."""
        return self.factor == 1.0 and not self.law


class Lived(msgspec.Struct, frozen=True, kw_only=True):
    """An errand done. ``alarms``: what each rival said in an hour of the same two replicas."""

    plan: Errand
    attainment: float
    outcomes: tuple[Outcome, ...]
    alarms: dict[str, bool] = {}


def live(errand: Errand) -> Lived:
    """Live a path and try every coin on it."""
    path = _path(errand)
    tried = tuple(try_out(path, _plan(errand, n)) for n in range(errand.coins))
    told = {}
    if errand.null and errand.design == "crossover":
        for model, slowness in zip(path.models, path.slowness, strict=True):
            model.run((plans.WARM_UP_S + HOUR_S) * MICROS, factor=slowness)
        told = alarms(path.models, plans.WARM_UP_S, HOUR_S)
    return Lived(plan=errand, attainment=_attainment(path), outcomes=tried, alarms=told)


def _plan(errand: Errand, coin: int) -> TrialPlan:
    seed = errand.seed * 1000 + coin
    plan = plans.planned_law(seed) if errand.law else plans.planned(errand.design, seed)
    return plan if errand.rarest_loss is None else plans.careful(plan, errand.rarest_loss)


def _path(errand: Errand) -> Path:
    worlds: Sequence[World] = (*plans.WORLDS, plans.LIGHTER, plans.AZURE, plans.LAW_WORLD)
    world = next(world for world in worlds if world.name == errand.world)
    change = Change(factor=errand.factor, law=plans.LAW if errand.law else None)
    engines = 2 if errand.design == "crossover" else 1
    load = None
    if world is plans.AZURE:
        load = azure.replayed(engines * world.chats_per_s, errand.seed)
    if errand.design == "switchback":
        return one_engine(world, errand.seed, change, load)
    slowness = (plans.SLOWER, 1.0) if errand.slower else (1.0, 1.0)
    return two_replicas(world, errand.seed, change, load, slowness)


def _attainment(path: Path) -> float:
    chats = [
        request.missed_us is None
        for model in path.models
        for request in model.requests
        if request.intent == LIVE and request.finished_us is not None
    ]
    return sum(chats) / max(1, len(chats))
