"""From lives to figures: means over seeds with intervals, who may be compared, what was unsafe.

The best static value and the oracle are chosen in hindsight by their mean over all seeds. In a
``guarded`` scenario a setting that makes some intent's attainment worse than the default's by the
guards' margin or more is no rival: no trial may keep it.

**Unsafe**: a minute of a life counts as an unsafe decision when something else than at boot was in
force in it, and

- the engine ran out of memory, or
- of an interactive intent with at least ``LEAST`` decided requests in that minute, the attainment
  was more than ``BELOW`` under its target, while the same requests (a load depends on the seed
  alone) attained it in the default's life.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from scipy import stats

from benchmarks.control.action_set import DEFAULT
from benchmarks.control.lives import Life, whole
from benchmarks.control.scenario import Scenario, declared

LEAST: Final = 20
BELOW: Final = 0.10
HEADROOM: Final = 1.15
ADAPTED: Final = 0.90
ORACLE: Final = "oracle"
LOOP: Final = "loop"
UNSAFE_WORDS: Final = (
    f"a minute with something else than at boot in force counts as an unsafe decision when memory"
    f" was exhausted, or when an interactive intent with {LEAST} or more decided requests in it was"
    f" more than {BELOW:.0%} under its target while the same requests attained it in the default's"
    " life"
)


class Mean(Struct, frozen=True):
    """A mean over seeds with its 95 % interval (t); of one seed there is none."""

    value: float
    low: float
    high: float


class Compared(Struct, frozen=True, kw_only=True):
    """One scenario. ``u``: by contender, after adapting; ``whole``: over the whole life.

    ``unsafe``: share of the loop's minutes. ``kept_per_hour``: after adapting. ``regret``: what the
    loop's whole life lacks to the oracle's, in U × hours.
    """

    scenario: str
    seeds: tuple[int, ...]
    u: dict[str, Mean]
    whole: dict[str, Mean]
    best_static: str
    best_rival: str
    oracle: str
    headroom: float
    ratios: dict[str, float] = {}
    unsafe: dict[str, float] = {}
    kept: tuple[tuple[str, ...], ...] = ()
    kept_per_hour: float = math.nan
    regret: float = math.nan
    verdicts: dict[str, int] = {}


def mean(values: Sequence[float]) -> Mean:
    """Of one value a seed."""
    found = float(np.mean(values))
    if len(values) < 2:
        return Mean(round(found, 4), math.nan, math.nan)
    half = float(stats.t.ppf(0.975, len(values) - 1)) * float(stats.sem(values))
    return Mean(round(found, 4), round(found - half, 4), round(found + half, 4))


def timetable(scenario: Scenario, lives: Sequence[Life]) -> tuple[tuple[float, str], ...]:
    """The setting that did best in each stretch between two changes, by the mean over seeds."""
    by_name = _by_contender([one for one in lives if _is_fixed(one.plan.contender)])
    names = _allowed(scenario, by_name)
    slots: list[tuple[float, str]] = []
    for stretch in scenario.segments:
        best = max(names, key=lambda name: np.mean([one.u([stretch]) for one in by_name[name]]))
        if not slots or slots[-1][1] != best:
            slots.append((stretch[0], best))
    return tuple(slots)


def compare(scenario: Scenario, lives: Sequence[Life]) -> Compared:
    """Everything that is said of a scenario."""
    by_name = _by_contender(lives)
    us = {name: mean([one.u(scenario.scored) for one in found]) for name, found in by_name.items()}
    wholes = {
        name: mean([one.u(whole(scenario)) for one in found]) for name, found in by_name.items()
    }
    names = _allowed(scenario, by_name)
    static = max((n for n in names if not n.startswith("law")), key=lambda name: us[name].value)
    best = max((*names, *(() if ORACLE not in us else (ORACLE,))), key=lambda n: us[n].value)
    headroom = us[best].value / us[static].value
    default = {one.plan.seed: one for one in by_name[DEFAULT]}
    compared = Compared(
        scenario=scenario.name,
        seeds=tuple(sorted(default)),
        u=us,
        whole=wholes,
        best_static=static,
        best_rival=max((n for n in us if n in RIVAL_NAMES), key=lambda n: us[n].value, default=""),
        oracle=best,
        headroom=round(headroom, 3),
        unsafe={
            name: round(float(np.mean([unsafe(scenario, one, default) for one in found])), 5)
            for name, found in by_name.items()
            if not _is_fixed(name) and name != ORACLE
        },
    )
    return _with_loop(scenario, compared, by_name.get(LOOP, []))


RIVAL_NAMES: Final = ("random_search", "aimd", "gradient", "formula")


def _with_loop(scenario: Scenario, compared: Compared, loops: Sequence[Life]) -> Compared:
    if not loops:
        return compared
    u, static, oracle = compared.u, compared.best_static, compared.oracle
    loop = u[LOOP].value
    ratios = {
        "oracle": loop / u[oracle].value,
        "best_static": loop / u[static].value,
        "default": min(
            loop / u[DEFAULT].value, compared.whole[LOOP].value / compared.whole[DEFAULT].value
        ),
    } | {name: loop / u[name].value for name in RIVAL_NAMES if name in u}
    late_h = sum(to_s - from_s for from_s, to_s in scenario.scored) / 3600
    kept = [sum(len(_kept_within(one, stretch)) for stretch in scenario.scored) for one in loops]
    verdicts: defaultdict[str, int] = defaultdict(int)
    for one in loops:
        for change in one.changes:
            verdicts[change.verdict or change.state] += 1
    lacks = compared.whole[oracle].value - compared.whole[LOOP].value
    return Compared(
        **{name: getattr(compared, name) for name in BEFORE_LOOP},
        ratios={name: round(value, 4) for name, value in ratios.items()},
        kept=tuple(tuple(change.words for change in one.kept()) for one in loops),
        kept_per_hour=round(float(np.mean(kept)) / late_h, 3),
        regret=round(lacks * scenario.life_s / 3600, 3),
        verdicts=dict(sorted(verdicts.items())),
    )


BEFORE_LOOP: Final = (
    "scenario", "seeds", "u", "whole", "best_static", "best_rival", "oracle", "headroom", "unsafe",
)  # fmt: skip


def unsafe(scenario: Scenario, life: Life, defaults: Mapping[int, Life]) -> float:
    """The share of a life's minutes that count as unsafe decisions."""
    beside = defaults[life.plan.seed].minutes
    count = life.deaths
    for number, (mine, other) in enumerate(zip(life.minutes, beside, strict=True)):
        if not mine.acted:
            continue
        target = scenario.target_at(60.0 * number)
        for name, intent in target.intents.items():
            (judged, good), (judged_there, good_there) = mine.counts[name], other.counts[name]
            if intent.class_ != "interactive" or min(judged, judged_there) < LEAST:
                continue
            wanted = intent.slo.attainment
            if good / judged < wanted - BELOW and good_there / judged_there >= wanted:
                count += 1
                break
    return count / max(1, len(life.minutes))


def _kept_within(life: Life, stretch: tuple[float, float]) -> list[str]:
    return [one.words for one in life.kept() if stretch[0] <= (one.kept_s or 0.0) < stretch[1]]


def _allowed(scenario: Scenario, by_name: Mapping[str, Sequence[Life]]) -> list[str]:
    """Settings that no guard forbids."""
    names = [name for name in by_name if _is_fixed(name)]
    if not scenario.guarded:
        return names
    margin = declared(scenario.target).trial.attainment_margin
    there = {name: _attained(scenario, by_name[name]) for name in names}
    return [
        name
        for name in names
        if all(there[name][i] > there[DEFAULT][i] - margin for i in scenario.target.intents)
    ]


def _attained(scenario: Scenario, lives: Sequence[Life]) -> dict[str, float]:
    return {
        intent: float(np.mean([one.attainment(intent, scenario.scored) for one in lives]))
        for intent in scenario.target.intents
    }


def _is_fixed(name: str) -> bool:
    return name == DEFAULT or name.startswith(("static ", "law "))


def _by_contender(lives: Sequence[Life]) -> dict[str, list[Life]]:
    found: defaultdict[str, list[Life]] = defaultdict(list)
    for one in sorted(lives, key=lambda one: one.plan.seed):
        found[one.plan.contender].append(one)
    return dict(found)
