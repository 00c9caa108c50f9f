"""What users' feedback asks of a plan: how many, how long, guard, guard only, or no trial."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from controller.config.sections import TrialSettings
from controller.config.targets import TargetSettings
from controller.limiting import guards_of
from controller.trial.feedback import Feedback, sized_words, with_feedback
from controller.trials import TrialPlan
from policies.policy import Guard, Policy
from signals.settings import MetricSettings
from tests.judge.builders import plan
from tests.loop.test_desired import policy as any_policy
from tests.loop.world import declared
from tests.plant.samples import plant_input

COPIED = MetricSettings(attribution_s=3600)
KNOWN = Feedback(metrics={"copied": COPIED}, rates={"live.copied_rate": 0.2}, capped=("app",))
SPLIT = plan(design="session_split", scope="live", block_s=64.0, washout_s=0.0, max_units=60)

POLICY = any_policy("pol_1", "approved", 16)


def planned(
    frozen: TrialPlan = SPLIT, *, margin: float = 0.1, primary: bool = False, **settings: Any
) -> TrialPlan | str:
    guard = Guard(metric="copied", margin=margin)
    asks: Policy = structs.replace(
        POLICY, guards=() if primary else (guard,), primary=guard if primary else None
    )
    seen = plant_input(new_sessions_per_s={"live": 1.0})
    return with_feedback(frozen, asks, KNOWN, seen, TrialSettings(**settings))


def of(found: TrialPlan | str) -> TrialPlan:
    assert not isinstance(found, str), found
    return found


def test_the_number_of_exposures_is_frozen_and_improved_waits_for_it() -> None:
    frozen = of(planned())
    (aged,) = frozen.aged
    assert (aged.base, aged.age_s, aged.exposure, aged.capped) == (0.2, 3600, "session", ("app",))
    assert aged.per_day == round(60 / 64 * 86_400, 1), "4 s of each block are no session's whole"
    assert aged.units == -(-2 * aged.needed // 60) == frozen.least_units
    assert aged.shown and frozen.primary == "U"
    words = sized_words(frozen, aged)
    assert words.startswith(f"copied: {aged.needed:,} sessions of each arm needed (now 0.2, margin")
    assert words.endswith("known 1 h later; kept provisionally until it is shown to be no worse")


def test_what_does_not_fit_into_the_trial_is_a_guard_only() -> None:
    frozen = of(planned(margin=0.01))
    (aged,) = frozen.aged
    assert (aged.shown, frozen.least_units) == (False, 0)
    assert aged.units > frozen.max_units
    assert "guard only" in sized_words(frozen, aged)


def test_what_takes_longer_than_two_weeks_is_a_guard_only_whatever_fits() -> None:
    days = 15.0
    slow = structs.replace(SPLIT, block_s=86_400.0 * days / 60, max_units=300)
    seen = plant_input(new_sessions_per_s={"live": 1e-3})
    asks = structs.replace(POLICY, guards=(Guard(metric="copied", margin=0.05),))
    (aged,) = of(with_feedback(slow, asks, KNOWN, seen, TrialSettings())).aged
    assert aged.units <= slow.max_units and aged.days > 14
    assert not aged.shown
    (longer,) = of(with_feedback(slow, asks, KNOWN, seen, TrialSettings(feedback_days=60))).aged
    assert longer.shown


def test_a_primary_metric_is_judged_at_its_age_or_refused_in_words() -> None:
    frozen = of(planned(primary=True, margin=0.15))
    assert (frozen.primary, frozen.ripens_s, frozen.aged) == ("copied", 3600, ())
    assert frozen.aged_primary is not None and frozen.scale == 16 * 0.15
    refused = planned(primary=True, margin=0.01)
    assert isinstance(refused, str)
    assert refused.startswith("copied can't be the primary metric: ")
    assert "allowed are 60 units and 14 days" in refused
    whole = planned(plan(), primary=True)
    assert isinstance(whole, str) and "only where sessions are split" in whole


def test_a_metric_that_is_not_in_force_or_of_which_nobody_comes_is_told() -> None:
    asks = structs.replace(POLICY, guards=(Guard(metric="stars", margin=0.1),))
    missing = with_feedback(SPLIT, asks, KNOWN, plant_input(), TrialSettings())
    assert missing == "no metric stars is in force"
    asks = structs.replace(POLICY, guards=(Guard(metric="copied", margin=0.1),))
    (nobody,) = of(with_feedback(SPLIT, asks, KNOWN, plant_input(), TrialSettings())).aged
    assert (nobody.units, nobody.shown) == (0, False)


def test_what_a_target_is_confirmed_by_is_a_guard_of_every_change_of_it() -> None:
    known = declared()
    target: TargetSettings = known.target.model_copy(update={"confirm_by": {"copied": 0.02}})
    found = guards_of(structs.replace(known, target=target), ())
    assert Guard(metric="copied", margin=0.02) in found


@pytest.mark.parametrize("margin", [0.0, -0.1])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        TargetSettings.model_validate(
            {
                "maximize": "a.tokens_per_s",
                "intents": {"a": {}},
                "confirm_by": {"copied": margin},
            }
        )
