"""A trial may be asked to exclude rare losses before it keeps anything; then it does, in time."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from benchmarks.judging import skewed
from controller.judge.rarity import CONFIDENCE, loses_big, units_to_exclude, unseen_share
from controller.judge.verdict import rule_on
from controller.trials import Trial
from tests.judge.builders import plan, trial

SEED = 11


def careful(ds: list[float], guards: list[float] | None = None) -> Trial:
    return trial(ds, guards, plan=plan(rarest_loss=0.05, max_units=200))


@pytest.mark.parametrize("share", [0.005, 0.05, 0.2, 0.5])
def test_so_many_units_without_a_loss_exclude_it_and_one_fewer_do_not(share: float) -> None:
    units = units_to_exclude(share)
    assert (1 - share) ** units <= 1 - CONFIDENCE < (1 - share) ** (units - 1)
    assert unseen_share(units) <= share < unseen_share(units - 1)


def test_a_gain_is_kept_at_seven_units_or_where_asked_only_once_rare_losses_are_excluded() -> None:
    soon = rule_on(trial([0.5] * 7, [0.05] * 7))
    assert soon.verdict == "IMPROVED"
    assert "Not excluded: losses in fewer than 48% of units" in soon.words
    units = units_to_exclude(0.05)
    assert rule_on(careful([0.5] * (units - 1), [0.05] * (units - 1))).verdict is None
    assert rule_on(careful([0.5] * units, [0.05] * units)).verdict == "IMPROVED"


def test_a_void_unit_excludes_nothing_and_does_not_end_a_careful_trial_in_vain() -> None:
    units = units_to_exclude(0.05)
    just = plan(rarest_loss=0.05, max_units=units)
    gaining = trial([0.5] * units, [0.05] * units, plan=just)
    void = msgspec.structs.replace(
        gaining.units[3], judged=False, d={}, void="incomplete telemetry"
    )
    holed = (*gaining.units[:3], void, *gaining.units[4:])
    waits = rule_on(msgspec.structs.replace(gaining, units=holed))
    assert waits.verdict is None
    assert waits.words.endswith(f"at least {units} units")
    more = msgspec.structs.replace(gaining.units[3], index=units)
    assert rule_on(msgspec.structs.replace(gaining, units=(*holed, more))).verdict == "IMPROVED"


def test_harm_is_called_as_soon_as_ever() -> None:
    assert rule_on(careful([-0.5] * 8)).verdict == "HARMED"


def test_a_guards_rare_loss_that_its_mean_would_pay_for_keeps_a_careful_trial_from_ending() -> None:
    guards = ([0.05] * 19 + [-0.4]) * 5
    paid = trial([0.5] * 100, guards, plan=plan(max_units=200))
    assert rule_on(paid).verdict == "IMPROVED"
    assert rule_on(careful([0.5] * 100, guards)).verdict is None


def test_large_differences_on_both_sides_are_no_loss() -> None:
    rng = np.random.default_rng(SEED)
    sides = [float(d) for d in rng.permutation([-0.3] * 20 + [0.3] * 20)]
    assert not loses_big(sides, scale=0.5), f"seed {SEED}"
    assert loses_big([*sides, -0.3], scale=0.5)
    assert not loses_big([-0.2] * 50, scale=0.5)


def test_rare_losses_that_gains_pay_for_are_bought_at_once_and_hardly_by_a_careful_plan() -> None:
    stream = skewed.BOUGHT[-1]
    at_once, asked = (skewed.tell(stream, 10, seed=2, careful=one) for one in (False, True))
    assert at_once.improved > 0.5
    assert asked.improved <= 0.1, "one in a hundred has no such loss in 90 units"
