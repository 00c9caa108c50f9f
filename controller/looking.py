"""Builds ``Seen`` from the feature store and the engine: only what this step needs.

Request rows are read for units that are due and, once a second, for the open unit's trips; the
plant's inputs every few seconds. Nothing here decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.arrival_history import ArrivalHistory
from controller.asking import AgedReader, with_outcomes
from controller.drift.blocks import DriftBlock, block_of
from controller.first_seen import FirstSeen
from controller.fleet import Replica
from controller.holdback.drawing import Holdback
from controller.judge.trips import ended, misses_s
from controller.outcomes import outcomes
from controller.plant.exhaustions import exhaustions
from controller.rating import ScopedRates
from controller.request_shapes import (
    context,
    deadlines,
    drain,
    new_sessions_per_s,
    traffic,
    with_session,
)
from controller.rule_notes import Episode
from controller.state import BlockCounts, BlockRows, Declared, PlantInput, Seen
from controller.trial import blocks
from controller.trials import Block, Trial, arm_of, arms_in
from controller.watching import Watched
from policies.runtime_config import Arm, RuntimeConfig
from signals.errors import Unavailable
from signals.events import MICROS
from signals.features.model import Features, WindowRevision
from signals.features.view import feature_values
from signals.features.windows import merge_steps

VIEW_SPAN_S = 10
PLANT_SPAN_S = 300
PLANT_POINTS = 1200
"""Seconds of all replicas whose steps are looked at one by one: the latest."""
PLANT_EVERY_S = 2.0
VIEW_EVERY_S = 0.25
RATES_EVERY_S = 10.0
"""Their windows are closed ones, which change when feedback that is late corrects them."""
MISSES_EVERY_S = 1.0
RECENT_REQUESTS = 200
SAME_CLOCK_US = 2_000_000

log = logging.getLogger(__name__)


class Cached(Struct, kw_only=True):
    """The slower parts of a look, and when they were taken (monotonic s)."""

    features: Mapping[str, float] = {}
    features_at_s: float = float("-inf")
    rates: ScopedRates = {}
    rates_at_s: float = float("-inf")
    plant_at_s: float = float("-inf")
    misses: dict[tuple[int, Arm], tuple[float, ...]] = {}
    misses_at_s: float = float("-inf")
    ended: dict[tuple[int, Arm], tuple[int, int]] = {}
    skew_us: int = 0


class Looker:
    """Looks at one target. Not thread-safe; the loop's thread owns it."""

    def __init__(
        self,
        declared: Declared,
        features: Features,
        replica: Replica | Watched,
        *,
        lateness_s: int,
        rates: Callable[[str, Iterable[str]], ScopedRates],
    ) -> None:
        self._declared = declared
        self._features = features
        self._replica = replica
        self._lateness_us = lateness_s * MICROS
        self._rates = rates
        self._cached = Cached()
        self._history = ArrivalHistory()
        self._first_seen = FirstSeen(features)
        self._aged = AgedReader(features)

    def look(
        self,
        trial: Trial | None,
        *,
        now_us: int,
        mono_s: float,
        plant: bool,
        drift_us: int = 0,
        holdback: Holdback | None = None,
        episodes: Iterable[Episode] = (),
        confirming: Mapping[str, Trial] = MappingProxyType({}),
    ) -> Seen:
        """What there is to see now. ``plant``: somebody waits for a plan, so don't wait for it.
        ``drift_us``: blocks up to then were looked at for drift. ``episodes``: of rules, open ones.
        ``confirming``: trials of provisional policies.

        Without the feature store it is a blind look: the engine alone.
        """
        observed = self._observe(trial, now_us)
        try:
            seen = self._see(observed, trial, now_us, mono_s, plant, drift_us)
            name, closed_us = self._declared.name, seen.closed_us
            ended = outcomes(self._features, name, episodes, closed_us=closed_us)
            held = self._held(holdback, closed_us)
            aged = self._aged.rows(confirming, closed_us=closed_us)
            return replace(seen, held=held, episodes=ended, aged=aged)
        except Unavailable as error:
            log.warning("%s: blind: %s", self._declared.name, error.detail)
            return Seen(
                observed=observed,
                features={},
                cursor=0,
                closed_us=0,
                blind=True,
                skew_us=self._cached.skew_us,
            )

    def _observe(self, trial: Trial | None, now_us: int) -> RuntimeConfig | None:
        """The engine, read afresh when the open block should be over; and its clock's skew."""
        max_age_s = self._declared.serve.reconcile_ms / 1000
        block = None if trial is None else blocks.open_block(trial)
        if trial is not None and block is not None and block.began_us is not None:
            ends_us = blocks.ends_us(trial, block)
            max_age_s = max_age_s if now_us + self._cached.skew_us < ends_us else 0.0
        before = self._replica.seen
        observed = self._replica.read(max_age_s=max_age_s)
        if observed is not None and observed is not before:
            self._cached.skew_us = skew_us(observed, now_us)
        return observed

    def _see(
        self,
        observed: RuntimeConfig | None,
        trial: Trial | None,
        now_us: int,
        mono_s: float,
        plant: bool,
        drift_us: int,
    ) -> Seen:
        name = self._declared.name
        watermark_us = self._features.watermark_us(name)
        closed_us = watermark_us - self._lateness_us
        running = trial is not None and trial.state == "running"
        return Seen(
            observed=observed,
            features=self._view(now_us, mono_s),
            cursor=watermark_us,
            closed_us=closed_us,
            due=self._due(trial, closed_us) if trial is not None and running else {},
            open_counts=self._open(trial, now_us, mono_s) if trial is not None and running else {},
            plant=self._plant(now_us, mono_s, at_once=plant),
            skew_us=self._cached.skew_us,
            drift=self._drift(trial, closed_us, drift_us),
        )

    def _drift(self, trial: Trial | None, closed_us: int, after_us: int) -> tuple[DriftBlock, ...]:
        """The next block that has closed, if any; after a time away the latest few, in turn."""
        limits, name = self._declared.drift, self._declared.name
        length_us = limits.block_s * MICROS
        ends_us = closed_us - closed_us % length_us
        oldest_us = max(0, ends_us - limits.catch_up * length_us)
        from_us = max(after_us - after_us % length_us, oldest_us)
        if from_us >= ends_us:
            return ()
        to_us = from_us + length_us
        block = block_of(
            self._features.windows(name, from_us=from_us, to_us=to_us),
            self._features.seconds(name, from_us=from_us, to_us=to_us),
            trial=trial,
            intents=tuple(self._declared.target.intents)[: limits.max_intents],
            from_us=from_us,
            to_us=to_us,
            min_requests=limits.min_requests,
        )
        return (block,)

    def _view(self, now_us: int, mono_s: float) -> Mapping[str, float]:
        if mono_s - self._cached.features_at_s >= VIEW_EVERY_S:
            self._cached.features_at_s = mono_s
            since_us = now_us - (VIEW_SPAN_S + 5) * MICROS
            name = self._declared.name
            if mono_s - self._cached.rates_at_s >= RATES_EVERY_S:
                self._cached.rates_at_s = mono_s
                self._cached.rates = self._rates(name, self._declared.target.intents)
            self._cached.features = feature_values(
                self._features.windows(name, from_us=since_us, to_us=now_us),
                self._features.seconds(name, from_us=since_us, to_us=now_us),
                now_us=now_us,
                span_s=VIEW_SPAN_S,
                intents=self._declared.target.intents,
                rates=self._cached.rates,
            )
        return self._cached.features

    def _due(self, trial: Trial, closed_us: int) -> dict[int, BlockRows]:
        found = {}
        ripe = blocks.ripening(trial, closed_us=closed_us)
        for unit in (*ripe, *blocks.due(trial, closed_us=closed_us)):
            for block in unit.blocks:
                rows = self._rows(trial.plan.id, block)
                if trial.plan.design == "session_split":
                    rows = self._first_seen.told(rows, trial.plan.id, block.index)
                if not unit.ripe:
                    rows = with_outcomes(self._features, trial.plan.id, block.index, rows)
                found[block.index] = rows
        return found

    def _held(self, holdback: Holdback | None, closed_us: int) -> dict[int, BlockRows]:
        if holdback is None:
            return {}
        ended = [one.block for one in holdback.blocks if not one.settled and one.block.ended_us]
        return {
            block.index: self._rows(holdback.plan.id, block)
            for block in ended
            if block.ended_us is not None and block.ended_us <= closed_us
        }

    def _rows(self, trial: str, block: Block) -> BlockRows:
        began_us = block.began_us or 0
        windows = self._features.windows(
            self._declared.name, from_us=began_us - 5 * MICROS, to_us=block.ended_us or began_us
        )
        return BlockRows(
            requests=tuple(self._features.trial_requests(trial, block=block.index)),
            seconds=tuple(self._features.trial_seconds(trial, block=block.index)),
            incomplete=any(w.incomplete for w in windows if _of(w, trial, block.index)),
        )

    def _open(self, trial: Trial, now_us: int, mono_s: float) -> dict[tuple[int, Arm], BlockCounts]:
        if blocks.open_block(trial) is None:
            return {}
        begun = [b for b in trial.units[-1].blocks if b.began_us is not None]
        if mono_s - self._cached.misses_at_s >= MISSES_EVERY_S:
            self._cached.misses_at_s = mono_s
            self._cached.misses, self._cached.ended = {}, {}
            for block in begun:
                self._cached.misses |= self._misses(trial, block)
        counts = {}
        for block in begun:
            for arm in arms_in(trial.plan, block):
                answered, errors = self._errors(trial, block, arm, now_us)
                misses = self._cached.misses.get((block.index, arm), ())
                found = BlockCounts(answered=answered, errors=errors, misses_s=misses)
                counts[block.index, arm] = found
        return counts

    def _misses(self, trial: Trial, block: Block) -> dict[tuple[int, Arm], tuple[float, ...]]:
        rows = self._features.trial_requests(trial.plan.id, block=block.index)
        began_us, arms = block.began_us or 0, arms_in(trial.plan, block)
        if trial.plan.design == "session_split":
            self._cached.ended |= {(block.index, arm): ended(rows, arm=arm) for arm in arms}
        if len(arms) == 1:
            every = misses_s(rows, block=block.index, began_us=began_us)
            return {(block.index, block.arm): tuple(every)}
        return {
            (block.index, arm): tuple(misses_s(rows, block=block.index, began_us=began_us, arm=arm))
            for arm in arms
        }

    def _errors(self, trial: Trial, block: Block, arm: Arm, now_us: int) -> tuple[int, int]:
        """(answered, errors) of one arm of a block, from its open windows; of sessions' arms, which
        windows do not tell apart, from the rows that misses were told from."""
        if trial.plan.design == "session_split":
            return self._cached.ended.get((block.index, arm), (0, 0))
        windows = self._features.windows(
            trial.plan.target, from_us=(block.began_us or now_us) - 5 * MICROS, to_us=now_us
        )
        mine = [
            w.counts
            for w in windows
            if _of(w, trial.plan.id, block.index)
            and arm_of(trial.plan, block, w.key.replica) == arm
        ]
        return sum(c.completed + c.errors for c in mine), sum(c.errors for c in mine)

    def _plant(self, now_us: int, mono_s: float, *, at_once: bool) -> PlantInput | None:
        if not at_once and mono_s - self._cached.plant_at_s < PLANT_EVERY_S:
            return None
        self._cached.plant_at_s = mono_s
        name = self._declared.name
        recent_us = now_us - PLANT_SPAN_S * MICROS
        asked_us = self._history.asks_from_us(now_us, least_s=PLANT_SPAN_S)
        told = self._features.seconds(name, from_us=asked_us, to_us=now_us)
        self._history.take(told, now_us=now_us)
        seconds = [second for second in told if second.to_us > recent_us]
        engines = self._features.engines(name)
        requests = {
            intent: self._features.find_requests(name, intent=intent, limit=RECENT_REQUESTS)
            for intent in self._declared.target.intents
        }
        steps = merge_steps([second.steps for second in seconds])
        return PlantInput(
            moments=steps,
            curve=engines[0].curve if engines else (),
            prefill_per_decode=steps.f / steps.b if steps.b else 0.0,
            arrivals=self._history.arrivals,
            offered=self._history.offered,
            deadline_s=deadlines(requests),
            drain_p95_s=drain(requests),
            fingerprint=(engines[0].fingerprint or "") if engines else "",
            points=tuple(s.steps for s in seconds if s.steps.n)[-PLANT_POINTS:],
            kv=engines[0].kv if engines else None,
            context_tokens=context(requests, self._declared.plant.memory_quantile),
            exhausted=exhaustions(chain.from_iterable(requests.values()), seconds),
            traffic=traffic(requests, seconds),
            with_session=with_session(requests),
            new_sessions_per_s=new_sessions_per_s(requests),
        )


def skew_us(seen: RuntimeConfig, now_us: int) -> int:
    """How far the engine's clock is ahead of ours; 0 within what a read itself may take."""
    ahead_us = round(seen.engine_time * MICROS) - now_us
    return ahead_us if abs(ahead_us) > SAME_CLOCK_US else 0


def _of(window: WindowRevision, trial: str, block: int) -> bool:
    return window.key.trial == trial and window.key.block == block
