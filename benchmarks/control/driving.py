"""The loop's rivals: the learner's comparators drive the knob directly, as people run them.

Every five seconds each is told what came of its last setting and chooses anew, with every setting
of the ladder allowed, no trial, no guard:

==================  ================================================================================
``random_search``   each of the loop's own settings and laws once, for a minute each, in random
                    order; then the best by U of those minutes, for ever
``aimd``            one ladder value up while the interactive intents attain their target, half of
                    the ladder down when they do not; told the share of good ones among the
                    interactive requests of the last half minute
``gradient``        Netflix's gradient limiter, told U of the last half minute
``formula``         the plant model's cap for the strictest TPOT, from a step curve fitted to the
                    last five minutes; where the knob is not the cap it knows no formula
==================  ================================================================================
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from benchmarks.control.action_set import fixed, put
from benchmarks.control.scenario import Scenario, micros
from benchmarks.control.scoring import decided, utility
from controller.config.targets import TargetSettings
from controller.learner.aimd import Aimd
from controller.learner.formula_only import FormulaOnly
from controller.learner.gradient_limiter import GradientLimiter
from controller.learner.port import Action, Arm, Context, Menu
from controller.learner.random_search import RandomSearch
from controller.plant.laws import strictest_tpot_ms
from controller.plant.settings import PlantSettings
from controller.plant.step_curve import fit
from engine.knobs import ACTIVE_CAP
from engine.simulated.fleet import Fleet, curve
from policies.settings import Setting
from signals.events import MICROS
from signals.features.windows import merge_steps

STEP_S: Final = 5.0
LOOK_S: Final = 30.0
TRIED_S: Final = 60.0
WASHOUT_S: Final = 15.0
FITTED_S: Final = 300.0
RIVALS: Final = ("random_search", "aimd", "gradient", "formula")
Rival = RandomSearch | Aimd | GradientLimiter | FormulaOnly


class Driver:
    """One rival on one fleet."""

    def __init__(self, scenario: Scenario, name: str, fleet: Fleet, *, seed: int) -> None:
        self._scenario = scenario
        self._fleet = fleet
        self._seed = seed
        settings = [one for one in fixed(scenario).values() if one is not None]
        if name != "random_search":
            settings = [one for one in settings if one.law is None]
        arms = [Arm.on(scenario.ladder, scenario.knob, one) for one in settings]
        self._actions = tuple(Action.of(arm) for arm in arms)
        self._boot = settings.index(Setting(value=scenario.spec.boot))
        self._at = self._boot
        self._since_us = 0
        self._rival = self._made(name)

    def run(self, until_us: int) -> None:
        """Drive until then."""
        while self._fleet.now_us < until_us:
            self._fleet.run(min(until_us, self._fleet.now_us + micros(STEP_S)))
            self._step()

    def _made(self, name: str) -> Rival:
        scenario, ladder = self._scenario, self._scenario.ladder
        at = float(ladder.index(scenario.spec.boot))
        if name == "random_search":
            return RandomSearch(budget=len(self._actions))
        if name == "aimd":
            return Aimd(place=scenario.knob, wanted=at, target=_strictest(scenario.target))
        if name == "gradient":
            return GradientLimiter(place=scenario.knob, limit=at + 1)
        return FormulaOnly(place=scenario.knob, safety=PlantSettings().tpot_safety)

    def _step(self) -> None:
        now_us, rival = self._fleet.now_us, self._rival
        if isinstance(rival, FormulaOnly):
            self._rival = self._fitted(rival)
        elif not isinstance(rival, RandomSearch):
            self._rival = rival.learn_one(
                Context(),
                self._actions[self._at],
                self._reward(LOOK_S),
                at_us=now_us,
                decided_us=self._since_us,
            )
        elif now_us - self._since_us >= micros(TRIED_S):
            self._rival = rival.learn_one(
                Context(),
                self._actions[self._at],
                self._reward(TRIED_S - WASHOUT_S),
                at_us=now_us,
                decided_us=self._since_us,
            )
        elif self._since_us:
            return
        self._choose()

    def _choose(self) -> None:
        menu = Menu(
            actions=self._actions,
            mask=(True,) * len(self._actions),
            baseline=self._boot,
            current=self._at,
        )
        now_us = self._fleet.now_us
        seed = self._seed * 1_000_003 + now_us
        self._since_us = now_us
        index = self._rival.choose(Context(), menu, seed=seed, at_us=now_us).index
        if index != self._at:
            self._at = index
            put(self._fleet, self._scenario.knob, self._actions[index].arms[0].setting)

    def _reward(self, span_s: float) -> float:
        """Of the last seconds: U, or for AIMD the worst interactive intent's attainment."""
        now_us = self._fleet.now_us
        target = self._scenario.target_at(now_us / MICROS)
        rows = self._fleet.requests(now_us - micros(span_s), now_us)
        if isinstance(self._rival, Aimd):
            counts = [decided(rows, name) for name in _interactive(target)]
            return min((good / judged for judged, good in counts if judged), default=1.0)
        seconds = self._fleet.seconds(now_us - micros(span_s), now_us)
        return utility(target, rows, seconds, self._scenario.reference)

    def _fitted(self, rival: FormulaOnly) -> FormulaOnly:
        """With the step curve of the last minutes and the limit declared now."""
        now_us = self._fleet.now_us
        limit_ms = strictest_tpot_ms(self._scenario.target_at(now_us / MICROS).intents)
        if self._scenario.knob != ACTIVE_CAP or limit_ms is None:
            return rival
        seconds = self._fleet.seconds(now_us - micros(FITTED_S), now_us)
        moments = merge_steps([second.steps for second in seconds])
        found = fit(moments, curve(self._scenario.replica), prior_share=PlantSettings().prior_share)
        if isinstance(found, str):
            return rival
        rho = moments.f / moments.b if moments.b else 0.0
        return replace(rival, curve=found, tpot_ms=limit_ms, prefill_per_decode=rho)


def _interactive(target: TargetSettings) -> list[str]:
    return [name for name, one in target.intents.items() if one.class_ == "interactive"]


def _strictest(target: TargetSettings) -> float:
    return max(target.intents[name].slo.attainment for name in _interactive(target))
