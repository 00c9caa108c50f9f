from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.config.sections import TrialSettings
from controller.plant.laws import (
    cap_for_tpot,
    propose_law,
    reference_tokens_per_s,
    strictest_tpot_ms,
)
from controller.plant.step_curve import StepCurve
from policies import laws
from policies.laws import Law, LawStep
from policies.proposal import Proposal
from policies.settings import Setting
from signals.events import StepMoments
from tests.plant.samples import CAP, LADDER, intents, phases, plant_input, steps

CURVE = StepCurve(
    base_us=18_000.0, per_decode_us=1300.0, per_prefill_us=700.0, steps=1000, residual=0.02
)
LIMITS = TrialSettings()


def proposed(*tpot_ms: int, before: Setting | None = None, **changes: Any) -> Proposal | str:
    return propose_law(
        "chat",
        intents(*tpot_ms),
        plant_input(**changes),
        spec=CAP,
        ladder=LADDER,
        before=before or Setting(value=8),
        limits=LIMITS,
    )


def proposal(*tpot_ms: int, **changes: Any) -> Proposal:
    found = proposed(*tpot_ms, **changes)
    assert isinstance(found, Proposal), found
    return found


def cap_of(found: Proposal) -> int:
    law = found.setting.law
    assert law is not None
    return law.steps[0].value


@pytest.mark.parametrize(
    ("limit_ms", "rho", "cap"),
    [
        (25, 0.0, 4),
        (50, 0.0, 16),
        (50, 1.0, 16),
        (49, 1.0, 8),
        (50, 4.0, 4),
        (100, 0.0, 32),
        (1000, 1.0, 64),
    ],
)
def test_the_cap_is_the_largest_that_the_curve_lets_meet_the_limit(
    limit_ms: int, rho: float, cap: int
) -> None:
    found = cap_for_tpot(CURVE, limit_ms, prefill_per_decode=rho, ladder=LADDER, safety=0.0)
    assert found == cap
    assert CURVE.tpot_ms(cap, rho) <= limit_ms
    higher = [value for value in LADDER if value > cap]
    assert not higher or CURVE.tpot_ms(higher[0], rho) > limit_ms


def test_safety_leaves_room_below_the_limit() -> None:
    """18 + 8 × 1.3 = 28.4 ms: within 29, but not with 15 % to spare."""
    caps = [
        cap_for_tpot(CURVE, 29.0, prefill_per_decode=0.0, ladder=LADDER, safety=safety)
        for safety in (0.0, 0.15)
    ]
    assert caps == [8, 4]


def test_where_no_cap_meets_the_limit_the_lowest_misses_least() -> None:
    assert cap_for_tpot(CURVE, 5.0, prefill_per_decode=1.0, ladder=LADDER, safety=0.1) == 2


def test_limits_of_25_and_100_ms_give_different_caps_that_follow_the_curve() -> None:
    strict, loose = proposal(25), proposal(100)
    assert (cap_of(strict), cap_of(loose)) == (2, 32)
    assert loose.evidence["predicted_tpot_ms"] == pytest.approx(18 + 32 * 2.0, rel=0.05)
    slower = proposal(100, moments=steps(2000, batches=(4, 8, 16), seed=2, factor=2.0))
    assert cap_of(slower) < cap_of(loose)


def test_the_law_caps_while_interactive_requests_are_there_and_opens_up_without_them() -> None:
    found = proposal(50)
    law = found.setting.law
    assert law == Law(
        variable="arrivals",
        class_="interactive",
        window_s=LIMITS.law_window_s,
        default=64,
        steps=(LawStep(above=0.0, value=8),),
        min_dwell_s=LIMITS.law_min_dwell_s,
    )
    laws.check(law, lambda value, field: CAP.check(value, field=field), field="law")
    assert (found.target, found.knob, found.before) == ("chat", "active_cap", Setting(value=8))
    assert found.origin.kind == "plant"


def test_the_reason_tells_the_figures_it_rests_on() -> None:
    found = proposal(50)
    assert "within 50 ms a token" in found.reason
    assert "a cap of 8 is predicted at 34 ms, 16 at 50 ms" in found.reason
    assert "tokens/s instead of" in found.reason
    assert "Measured over 2000 steps" in found.reason
    assert set(found.evidence) >= {"tpot_limit_ms", "cap", "predicted_tpot_ms", "steps"}


def test_the_reason_is_honest_where_no_cap_meets_the_limit() -> None:
    assert "no ladder value is predicted to, a cap of 2 misses by least" in proposal(15).reason


def test_the_expected_effect_is_the_curves_and_its_range_the_residuals() -> None:
    found = proposal(50).expected
    assert found is not None
    rate = {cap: cap / (0.018 + cap * 0.002) for cap in (8, 64)}
    share = 8 / 16 + 1 / 16
    by_hand = share * rate[8] + (1 - share) * rate[64] - rate[8]
    assert found.estimate == pytest.approx(by_hand, rel=0.1)
    assert found.low < found.estimate < found.high
    assert found.high - found.low < 2 * found.estimate


def test_the_strictest_interactive_limit_counts() -> None:
    assert strictest_tpot_ms(intents(100, 25)) == 25.0
    assert cap_of(proposal(100, 25)) == cap_of(proposal(25))
    assert strictest_tpot_ms(intents()) is None


def test_long_running_work_is_preempted_and_short_work_drains() -> None:
    """18 ms + 2 ms a sequence: a step at 64 takes 4.3 times as long as at 8, where it was seen."""
    assert proposal(50, drain_p95_s=0.10).setting.shrink == "drain"
    assert proposal(50, drain_p95_s=0.13).setting.shrink == "preempt"


def test_nothing_is_proposed_without_grounds_and_the_words_say_which_are_missing() -> None:
    assert proposed() == "no interactive intent has a TPOT limit"
    few = steps(40, batches=(4, 8), seed=1)
    assert proposed(50, moments=few) == "40 steps seen, fewer than the 100 a proposal needs"
    assert "no curve was measured" in str(proposed(50, moments=StepMoments(), curve=()))
    assert "no law is needed" in str(proposed(5000))
    assert "no interactive request" in str(proposed(50, arrivals=phases(0, 8, 6)))
    assert "all the time" in str(proposed(50, arrivals=phases(8, 0, 6)))
    assert "no steady rhythm" in str(proposed(50, arrivals=phases(8, 8, 2)))


def test_a_declared_cycle_needs_no_measured_rhythm() -> None:
    found = propose_law(
        "chat",
        intents(50),
        plant_input(arrivals=phases(8, 8, 1)),
        spec=CAP,
        ladder=LADDER,
        before=Setting(value=8),
        limits=TrialSettings(cycle_s=16.0),
    )
    assert isinstance(found, Proposal)


def test_a_law_in_force_is_not_proposed_again() -> None:
    found = proposal(50)
    assert proposed(50, before=found.setting) == "this law is in force already"


def test_a_knob_that_needs_a_restart_gets_no_law() -> None:
    fixed = msgspec.structs.replace(CAP, capability="restart")
    found = propose_law(
        "chat",
        intents(50),
        plant_input(),
        spec=fixed,
        ladder=LADDER,
        before=Setting(value=8),
        limits=LIMITS,
    )
    assert found == "active_cap can't be moved while the engine runs"


def test_the_reference_rate_is_the_curves_at_capacity() -> None:
    assert reference_tokens_per_s(plant_input(), 64) == pytest.approx(64 / 0.146, rel=0.05)
    assert reference_tokens_per_s(plant_input(moments=StepMoments(), curve=()), 64) == 0.0
