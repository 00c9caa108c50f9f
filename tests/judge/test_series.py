"""What can be plotted of a trial is what its judge saw when it ruled."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from controller.judge.series import series
from controller.judge.verdict import e_values, rule_on
from tests.judge.builders import plan, trial

SEED = 5


def test_each_point_has_the_very_figures_of_the_judge_after_that_unit() -> None:
    rng = np.random.default_rng(SEED)
    ds, guards = rng.normal(0.2, 0.3, 9).tolist(), rng.normal(0.0, 0.03, 9).tolist()
    whole = trial(ds, guards)
    primary, guard = series(whole)
    for n in range(1, 10):
        so_far = msgspec.structs.replace(whole, units=whole.units[:n])
        e, ruling = e_values(so_far), rule_on(so_far)
        at, beside = primary.points[n - 1], guard.points[n - 1]
        assert (at.e_better, at.e_worse) == (e["U>0"], e["U<0"]), f"seed {SEED}"
        assert beside.e_better == e["attainment:live>-0.05"]
        assert beside.e_worse == e["attainment:live<0"]
        assert at.d == ds[n - 1]
        if ruling.effect is not None:
            found = (ruling.effect.estimate, ruling.effect.low, ruling.effect.high)
            assert (at.mean, at.low, at.high) == found


def test_limits_say_when_a_line_is_enough() -> None:
    kept = trial([0.5] * 7, [0.05] * 7)
    assert rule_on(kept).verdict == "IMPROVED"
    lines = series(kept)
    for line in lines:
        assert line.points[-1].e_better >= line.better_limit
        assert line.points[-1].worst_twice > line.mean_floor
    assert [(line.role, line.mean_floor) for line in lines] == [("primary", 0.0), ("guard", -0.05)]
    harmed = trial([-0.5] * 8)
    assert rule_on(harmed).verdict == "HARMED"
    assert series(harmed)[0].points[-1].e_worse >= series(harmed)[0].worse_limit


def test_harm_has_its_own_limit_where_the_budget_left_little_for_gains() -> None:
    scarce = trial([0.1] * 3, plan=plan(alpha=0.001, harm_alpha=0.01))
    primary, guard = series(scarce)
    assert (primary.better_limit, primary.worse_limit) == pytest.approx((1000, 200))
    assert guard.worse_limit == primary.worse_limit


def test_a_unit_without_a_metric_or_void_has_no_point() -> None:
    whole = trial([0.1] * 4)
    units = list(whole.units)
    units[1] = msgspec.structs.replace(units[1], judged=False, d={}, void="incomplete telemetry")
    units[2] = msgspec.structs.replace(units[2], d={"U": 0.1})
    primary, guard = series(msgspec.structs.replace(whole, units=tuple(units)))
    assert [point.unit for point in primary.points] == [0, 2, 3]
    assert [point.unit for point in guard.points] == [0, 3]
    assert primary.points[0].low is None
