"""A few hundred steps of the machine of ``tests/races/machine.py``, the same ones every time.

``RACES_SEED=n`` takes other ones; a failure prints its steps, shrunk, as a program.
"""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.postgres import Postgres
from tests.races.machine import Races

SEED = int(os.environ.get("RACES_SEED", "15"))
ACTS = 25
"""That people did, at least; if fewer, the machine has learnt to stand still."""
STEPS = settings(
    database=None,
    deadline=None,
    max_examples=12,
    stateful_step_count=35,
    suppress_health_check=list(HealthCheck),
)


def test_operators_loop_crashes_and_dying_engines_in_any_order_on_sqlite() -> None:
    run_state_machine_as_test(seed(SEED)(Races), settings=STEPS)
    assert Races.written.total() > ACTS


def test_operators_loop_crashes_and_dying_engines_in_any_order_on_postgresql(
    postgres: Postgres,
) -> None:
    class OnPostgres(Races):
        make_store = staticmethod(postgres.address)
        written = Counter[str]()

    few = settings(STEPS, max_examples=4)
    run_state_machine_as_test(seed(SEED)(OnPostgres), settings=few)
    assert OnPostgres.written.total() > ACTS
