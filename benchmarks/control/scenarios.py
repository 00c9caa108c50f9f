"""Every scenario, by name; and those whose trace is not there."""

from __future__ import annotations

import numpy as np

from benchmarks.control.processes import MADE_BY_PROCESSES
from benchmarks.control.replayed import REPLAYED
from benchmarks.control.scenario import Scenario
from signals.errors import Unavailable

SCENARIOS = {
    one.name: one for one in sorted((*MADE_BY_PROCESSES, *REPLAYED), key=lambda one: one.name)
}


def left_out(names: list[str]) -> dict[str, str]:
    """Of these scenarios, those that can't be lived here, and why."""
    found = {}
    for name in names:
        why = missing(SCENARIOS[name])
        if why is not None:
            found[name] = why
    return found


def missing(scenario: Scenario) -> str | None:
    """What a scenario lacks; None: nothing."""
    try:
        next(scenario.arrivals(np.random.default_rng(0)), None)
    except Unavailable as error:
        return error.detail
    return None
