"""Who lives through a scenario: settings that never move, laws known beforehand, rivals, the loop.

Every contender's name is enough to live its life again: ``default``, ``static 16``, ``law 16``,
``oracle`` (with its timetable), the learner's comparators by their names, and ``loop``.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from benchmarks.control.action_set import fixed, put
from benchmarks.control.driving import RIVALS, Driver
from benchmarks.control.lives import Change, Errand, Life
from benchmarks.control.scenario import REPLICA, Scenario, declared, micros, slos
from benchmarks.control.scenarios import SCENARIOS
from benchmarks.control.scoring import KEPT_S, Scorer
from benchmarks.pipeline import ROOT
from controller.backtest.backtest import Backtest
from engine.simulated.faults import MEMORY_EXHAUSTED
from engine.simulated.fleet import Fleet
from policies.policy import Policy
from signals.events import MICROS

TICK_S = 2.0
"""Production looks ten times a second; laws run in the engine, blocks last for minutes."""
PART_S = 300.0
"""A life is lived and scored in parts of so long."""


def live(errand: Errand) -> Life:
    """Live one life."""
    scenario = SCENARIOS[errand.scenario]
    if errand.life_s is not None:
        scenario = replace(scenario, life_s=errand.life_s)
    began_s = time.process_time()
    if errand.contender == "loop":
        life = _looped(scenario, errand)
    elif errand.contender in RIVALS:
        life = _driven(scenario, errand)
    else:
        life = _timed(scenario, errand)
    took_s = round(time.process_time() - began_s, 1)
    return replace(life, cpu_s=took_s, commit=_commit())


def _timed(scenario: Scenario, errand: Errand) -> Life:
    """Settings by a timetable; one that never moves has one entry."""
    settings, fleet, scorer = fixed(scenario), scenario.fleet(errand.seed), Scorer(scenario)
    slots = errand.slots or ((0.0, errand.contender),)
    ends = [*(from_s for from_s, _ in slots[1:]), scenario.life_s]
    for (_, name), to_s in zip(slots, ends, strict=True):
        put(fleet, scenario.knob, settings[name])
        _through(fleet, scenario, scorer, to_s, fleet.run)
    return _life(errand, fleet, scorer)


def _driven(scenario: Scenario, errand: Errand) -> Life:
    """A rival of the loop drives the knob by itself, with no trial."""
    fleet, scorer = scenario.fleet(errand.seed), Scorer(scenario)
    driver = Driver(scenario, errand.contender, fleet, seed=errand.seed)
    _through(fleet, scenario, scorer, scenario.life_s, driver.run)
    return _life(errand, fleet, scorer)


def _looped(scenario: Scenario, errand: Errand) -> Life:
    """The production loop, from boot settings and with nothing known.

    What a person declares anew takes a restart of the controller, as in production.
    """
    fleet, scorer = scenario.fleet(errand.seed), Scorer(scenario)
    ends = [*(from_s for from_s, _ in scenario.declares), scenario.life_s]
    policies: list[Policy] = []
    with tempfile.TemporaryDirectory(prefix="trimtab-control-") as folder:
        for number, to_s in enumerate(ends):
            backtest = Backtest(
                declared(scenario.target_at(fleet.now_us / MICROS)),
                fleet,
                Path(folder),
                seed=errand.seed + 1000 * number,
                tick_s=TICK_S,
            )

            def run(until_us: int, backtest: Backtest = backtest) -> None:
                backtest.run((until_us - fleet.now_us) / MICROS)

            try:
                _through(fleet, scenario, scorer, to_s, run)
                policies = backtest.policies()
            finally:
                backtest.close()
    changes = tuple(_change(policy) for policy in reversed(policies))
    return replace(_life(errand, fleet, scorer), changes=changes)


def _through(
    fleet: Fleet, scenario: Scenario, scorer: Scorer, to_s: float, run: Callable[[int], None]
) -> None:
    """Live until a second, scoring and forgetting on the way; then by what is declared then."""
    while fleet.now_us < micros(to_s):
        due_s = [from_s for from_s, _ in scenario.declares if micros(from_s) > fleet.now_us]
        until_us = min(fleet.now_us + micros(PART_S), micros(min([to_s, *due_s])))
        run(until_us)
        scorer.follow(fleet)
        fleet.forget(fleet.now_us - micros(KEPT_S))
        if until_us in [micros(from_s) for from_s in due_s]:
            fleet.declare(slos(scenario.target_at(until_us / MICROS)))


def _life(errand: Errand, fleet: Fleet, scorer: Scorer) -> Life:
    deaths = [cause for _, cause in fleet.replica(REPLICA).deaths if cause == MEMORY_EXHAUSTED]
    return Life(plan=errand, minutes=tuple(scorer.minutes), deaths=len(deaths))


def _change(policy: Policy) -> Change:
    kept = policy.verdict == "IMPROVED"
    return Change(
        words=policy.words(),
        origin=f"{policy.origin.kind}:{policy.origin.name}",
        state=policy.state,
        began_s=round(policy.created_us / MICROS),
        kept_s=round(policy.updated_us / MICROS) if kept else None,
        verdict=policy.verdict,
        cause=policy.cause,
    )


@lru_cache(maxsize=1)
def _commit() -> str:
    """Of the tree that runs; "" where git does not know it."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip()
