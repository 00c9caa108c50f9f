"""A few hundred steps of the machine of ``tests/races/machine.py``, the same ones every time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.races.machine import Races

STEPS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=15,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)


def test_operators_loop_crashes_and_dying_engines_in_any_order_on_sqlite() -> None:
    run_state_machine_as_test(Races, settings=STEPS)
