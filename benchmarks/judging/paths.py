"""Paths of load: one engine, or two replicas side by side, and what a unit on them showed.

A ``Change`` is what the candidate does. Where it does nothing, nothing that happens depends on the
coin: then units are remembered by their start, length and coin, and a path is lived once for all
its trials. The rows are read and weighed by ``controller.judge`` and by nothing else.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from benchmarks.judging.plans import REPLICAS, WARM_UP_S
from benchmarks.queue_model import CapLaw, QueueModel, Request, World, chats
from controller.judge.trips import latency_trip, misses_s
from controller.judge.values import block_values, crossover_values, unit_differences
from controller.trials import Block, BlockValues, TrialPlan, Unit
from policies.runtime_config import Arm
from signals.events import MICROS
from signals.features.model import RequestRow, SecondRow

LOOK_S = 1
"""Latency trips are looked for once a second (production: several times)."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The candidate's steps take ``factor`` times as long, and its cap follows ``law``."""

    factor: float = 1.0
    law: CapLaw | None = None

    @property
    def nothing(self) -> bool:
        """Whether it changes nothing."""
        return self.factor == 1.0 and self.law is None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One arm in one block: its values, or why it has none, and when its requests missed."""

    values: BlockValues | str
    misses_s: list[float]


@dataclass
class Path:
    """Engines side by side under one path of load: one for a switchback, two for a crossover.

    ``slowness`` multiplies each replica's step times for ever, whichever arm it has.
    """

    models: Sequence[QueueModel]
    change: Change = Change()
    slowness: Sequence[float] = (1.0, 1.0)
    _units: dict[tuple[float, float, Arm], Unit] = field(default_factory=dict)
    _blocks: dict[tuple[int, float], list[Shown]] = field(default_factory=dict)
    _lived_us: int = 0

    def unit(self, at_s: float, plan: TrialPlan, order: tuple[Arm, Arm], index: int) -> Unit:
        """The unit that begins ``at_s`` after the warm-up; ``index`` is the trial's."""
        key = (at_s, plan.block_s, order[0])
        found = self._units.get(key) if self.change.nothing else None
        if found is None:
            began_us = round((WARM_UP_S + at_s) * MICROS)
            if plan.design == "crossover":
                shown, tripped = self._block(began_us, plan, order, None)
            else:
                shown, tripped = self._switched(began_us, plan, order)
            found = _unit(shown["baseline"].values, shown["candidate"].values, tripped)
            self._units[key] = found
        return msgspec.structs.replace(found, index=index)

    def _switched(
        self, began_us: int, plan: TrialPlan, order: tuple[Arm, Arm]
    ) -> tuple[dict[Arm, Shown], bool]:
        shown: dict[Arm, Shown] = {}
        tripped = False
        for arm in order:
            one, trip = self._block(began_us, plan, (arm,), shown.get("baseline"))
            shown |= one
            tripped = tripped or trip
            began_us += round(plan.block_s * MICROS)
        return shown, tripped

    def _block(
        self, began_us: int, plan: TrialPlan, arms: tuple[Arm, ...], before: Shown | None
    ) -> tuple[dict[Arm, Shown], bool]:
        """What each arm showed, and whether a latency trip ended the candidate's part in it.

        ``before``: a switchback's baseline, if its block came first.
        """
        self._live(began_us)
        key = (began_us, plan.block_s)
        ended_us = began_us + round(plan.block_s * MICROS)
        if not self.change.nothing:
            tripped = self._look(began_us, ended_us, plan, arms, before)
            return dict(zip(arms, self._show(began_us, ended_us, plan, arms), strict=True)), tripped
        if key not in self._blocks:
            self._live(ended_us)
            self._blocks[key] = self._show(began_us, ended_us, plan, arms)
        shown = dict(zip(arms, self._blocks[key], strict=True))
        baseline = before if plan.design == "switchback" else shown["baseline"]
        if "candidate" not in shown or baseline is None:
            return shown, False
        return shown, _tripped(plan, baseline.misses_s, shown["candidate"].misses_s)

    def _look(
        self,
        began_us: int,
        ended_us: int,
        plan: TrialPlan,
        arms: tuple[Arm, ...],
        before: Shown | None,
    ) -> bool:
        """Live through a block with an eye on the candidate's misses."""
        watched = "candidate" in arms and (plan.design == "crossover" or before is not None)
        watches = [_Watch(model, began_us) for model in self.models]
        for now_us in range(began_us + LOOK_S * MICROS, ended_us + 1, LOOK_S * MICROS):
            self._live(now_us, arms)
            if not watched:
                continue
            missed = {arm: watch.missed_s(now_us) for arm, watch in zip(arms, watches, strict=True)}
            baseline = missed["baseline"] if before is None else before.misses_s
            if _trips(plan, baseline, missed["candidate"], (now_us - began_us) / MICROS):
                self._live(ended_us)
                return True
        return False

    def _live(self, until_us: int, arms: Sequence[Arm] = ()) -> None:
        if until_us <= self._lived_us:
            return
        for place, model in enumerate(self.models):
            changed = bool(arms) and arms[place] == "candidate"
            model.run(
                until_us,
                factor=self.slowness[place] * (self.change.factor if changed else 1.0),
                law=self.change.law if changed else None,
            )
        self._lived_us = until_us

    def _show(
        self, began_us: int, ended_us: int, plan: TrialPlan, arms: tuple[Arm, ...]
    ) -> list[Shown]:
        """What each engine showed, in their order."""
        block = Block(index=0, arm=arms[0], began_us=began_us)
        rows: list[RequestRow] = []
        seconds: list[SecondRow] = []
        for replica, arm, model in zip(REPLICAS, arms, self.models, strict=False):
            rows += [
                request.row(plan.id, 0, replica=replica, arm=arm, now_us=ended_us)
                for request in model.arrived(began_us, ended_us)
            ]
            seconds += [
                msgspec.structs.replace(second, trial=plan.id, block=0, arm=arm, replica=replica)
                for second in model.between(began_us, ended_us)
            ]
        found: dict[Arm, BlockValues] | str
        if plan.design == "crossover":
            found = crossover_values(plan, block, rows, seconds)
        else:
            values = block_values(plan, block, rows, seconds)
            found = values if isinstance(values, str) else {arms[0]: values}
        return [
            Shown(
                values=found if isinstance(found, str) else found[arm],
                misses_s=misses_s(rows, block=0, began_us=began_us, arm=arm),
            )
            for arm in arms
        ]


def _tripped(plan: TrialPlan, base: Sequence[float], candidate: Sequence[float]) -> bool:
    """Whether a look at any second found a trip. Both sorted; only with enough more is it asked."""
    looks = range(LOOK_S, round(plan.block_s) + 1, LOOK_S)
    more = np.searchsorted(candidate, looks, "right") - np.searchsorted(base, looks, "right")
    asked = np.asarray(looks)[more >= plan.trip_misses]
    return any(_trips(plan, base, candidate, ran_s) for ran_s in asked.tolist())


def _trips(plan: TrialPlan, base: Sequence[float], candidate: Sequence[float], at_s: float) -> bool:
    return (
        latency_trip(plan, baseline_misses_s=base, candidate_misses_s=candidate, ran_s=at_s)
        is not None
    )


class _Watch:
    """The misses of a block while it is lived, as ``misses_s`` would find them in rows."""

    def __init__(self, model: QueueModel, began_us: int) -> None:
        self._model = model
        self._began_us = self._until_us = began_us
        self._open: list[Request] = []
        self._missed_s: list[float] = []

    def missed_s(self, now_us: int) -> list[float]:
        """When requests that arrived since the block began missed, until now."""
        still = []
        for request in (*self._open, *self._model.arrived(self._until_us, now_us)):
            at_us = request.missed_us
            if at_us is None:
                continue
            if at_us <= now_us:
                self._missed_s.append((at_us - self._began_us) / MICROS)
            else:
                still.append(request)
        self._open, self._until_us = still, now_us
        return self._missed_s


def _unit(base: BlockValues | str, candidate: BlockValues | str, tripped: bool) -> Unit:
    if isinstance(base, str) or isinstance(candidate, str):
        why = base if isinstance(base, str) else str(candidate)
        return Unit(index=0, blocks=(), void=why, tripped=tripped)
    return Unit(
        index=0,
        blocks=(),
        d=unit_differences(base.values, candidate.values),
        halves=(
            unit_differences(base.halves[0], candidate.halves[0]),
            unit_differences(base.halves[1], candidate.halves[1]),
        ),
        values={"baseline": base.values, "candidate": candidate.values},
        tripped=tripped,
        judged=True,
    )


def one_engine(world: World, seed: int, change: Change, load: Iterator[Request] | None) -> Path:
    """A path for a switchback. ``load`` None: made of the world and the seed."""
    return Path([QueueModel(world, seed, load)], change)


def two_replicas(
    world: World,
    seed: int,
    change: Change,
    load: Iterator[Request] | None,
    slowness: Sequence[float] = (1.0, 1.0),
) -> Path:
    """A path for a crossover: twice the world's chats, each to one of two by a fair coin."""
    rng = np.random.default_rng([seed, 2])
    doubled = replace(world, chats_per_s=2 * world.chats_per_s)
    stream = load or chats(doubled, np.random.default_rng(seed))
    first, second = split_fairly(stream, rng)
    models = [QueueModel(world, seed, first), QueueModel(world, seed, second)]
    return Path(models, change, slowness)


def split_fairly(
    stream: Iterator[Request], rng: np.random.Generator
) -> tuple[Iterator[Request], Iterator[Request]]:
    """Every request to one of two, by a fair coin of its own: random routing."""
    tossed = (heads for _ in itertools.count() for heads in rng.integers(2, size=1000).tolist())
    (left, right), (heads, tails) = itertools.tee(stream), itertools.tee(tossed)
    return itertools.compress(left, heads), itertools.compress(right, map(operator.not_, tails))
