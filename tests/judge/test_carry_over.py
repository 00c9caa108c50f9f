from __future__ import annotations

import pytest

from controller.judge.carry_over import carry_over, paired_p, plan_in_force
from controller.trials import Trial
from tests.judge.builders import PLAN, trial, unit


def _with_halves(shifts: list[float], doubled_from: int | None = None) -> Trial:
    units = tuple(
        unit(i, {"U": 0.1}, halves=({"U": 0.1}, {"U": 0.1 + shift}))
        for i, shift in enumerate(shifts)
    )
    return trial([], units=units, doubled_from=doubled_from)


GROWING = [0.05, 0.06, 0.04, 0.07, 0.05, 0.05, 0.06, 0.04]
STEADY = [0.05, -0.06, 0.04, -0.05, 0.05, -0.05, 0.06, -0.04]


def test_a_difference_that_grows_inside_the_window_asks_for_longer_blocks() -> None:
    why = carry_over(_with_halves(GROWING))
    assert why is not None
    assert "p = 0.000" in why and "8 units" in why


def test_a_steady_difference_does_not() -> None:
    assert carry_over(_with_halves(STEADY)) is None


def test_it_is_asked_once_right_after_the_eighth_counted_unit() -> None:
    assert carry_over(_with_halves(GROWING[:7])) is None
    assert carry_over(_with_halves([*GROWING, 0.05])) is None
    assert carry_over(_with_halves(GROWING, doubled_from=8)) is None


def test_units_after_the_check_have_doubled_blocks_and_washout() -> None:
    doubled = _with_halves([*GROWING, 0.05], doubled_from=8)
    assert plan_in_force(doubled, 7) == PLAN
    later = plan_in_force(doubled, 8)
    assert (later.block_s, later.washout_s) == (2 * PLAN.block_s, 2 * PLAN.washout_s)
    assert plan_in_force(_with_halves(GROWING), 8) == PLAN


def test_p_is_that_of_a_paired_t_test() -> None:
    """t = .2 / (.158114/√5) = 2.828427 with 4 degrees of freedom."""
    assert paired_p([0.0, 0.1, 0.2, 0.3, 0.4]) == pytest.approx(0.047421, abs=1e-5)
    assert paired_p([0.2]) == 1.0
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([0.25, 0.25]) == 0.0
