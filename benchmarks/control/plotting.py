"""PNG figures of a scenario: U by contender with intervals, and one life of the loop.

Needs matplotlib, which only benchmarks have.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.control.action_set import DEFAULT
from benchmarks.control.lives import Life
from benchmarks.control.scenario import Scenario
from benchmarks.control.summing import LOOP, ORACLE, RIVAL_NAMES, Compared

mpl.use("Agg")
from matplotlib import pyplot as plt

SMOOTH_MIN = 5
COLOURS = {LOOP: "tab:red", ORACLE: "black", DEFAULT: "tab:gray"}


def bars(scenario: Scenario, compared: Compared, folder: Path) -> Path:
    """Mean U after adapting, one bar a contender, best first; whiskers: 95 % over seeds."""
    names = sorted(compared.u, key=lambda name: -compared.u[name].value)
    values = [compared.u[name].value for name in names]
    errors = [
        [0.0 if np.isnan(compared.u[n].low) else compared.u[n].value - compared.u[n].low]
        for n in names
    ]
    figure, axes = plt.subplots(figsize=(8, 0.3 * len(names) + 1.2))
    axes.barh(names, values, xerr=np.ravel(errors), color=[_colour(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("U after adapting")
    axes.set_title(f"({scenario.name}) {scenario.words}", fontsize=9)
    return _saved(figure, folder / f"control_{scenario.name}_u.png")


def life(scenario: Scenario, lives: Sequence[Life], compared: Compared, folder: Path) -> Path:
    """U and the knob over one seed's life: the loop, the oracle, the default, the best rival."""
    seed = min(one.plan.seed for one in lives)
    shown = dict.fromkeys(
        (DEFAULT, compared.best_static, compared.oracle, compared.best_rival, LOOP)
    )
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5), sharex=True)
    for one in lives:
        name = one.plan.contender
        if one.plan.seed != seed or name not in shown:
            continue
        hours = (np.arange(len(one.minutes)) + 0.5) / 60
        us = np.array([minute.u for minute in one.minutes])
        wide = np.ones(min(SMOOTH_MIN, len(us)))
        smooth = np.convolve(us, wide, "same") / np.convolve(np.ones(len(us)), wide, "same")
        style = {"color": COLOURS.get(name), "linewidth": 1.6 if name == LOOP else 0.9}
        above.plot(hours, smooth, label=name, **style)
        below.step(hours, [minute.at for minute in one.minutes], where="mid", **style)
    for moment_s in scenario.moments:
        above.axvline(moment_s / 3600, linestyle=":", color="black")
    above.set_ylabel(f"U ({SMOOTH_MIN} min mean)")
    above.legend(fontsize=8, ncols=3)
    above.set_title(f"({scenario.name}) {scenario.words}; seed {seed}", fontsize=9)
    below.set_ylabel(scenario.knob)
    below.set_xlabel("hours")
    return _saved(figure, folder / f"control_{scenario.name}_life.png")


def _colour(name: str) -> str:
    if name in RIVAL_NAMES:
        return "tab:orange"
    return COLOURS.get(name, "tab:blue")


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
