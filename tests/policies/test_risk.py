"""Risk is computed from the knob and the step; what lowers it needs fewer people."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from policies.knobs import KnobSpec
from policies.risk import CLASSES, Assessed, assess
from policies.settings import Setting
from tests.policies import choices
from tests.policies.proposals import LADDER, law

CAP = KnobSpec(
    name="active_cap",
    unit="sequences",
    low=1,
    capacity=64,
    boot=64,
    capability="drain",
    effect_delay_s=1.0,
)
LIVE = msgspec.structs.replace(CAP, capability="live")


def risk(setting: int | Setting, before: int | Setting = 8, **changes: Any) -> Assessed:
    given: dict[str, Any] = {
        "spec": CAP,
        "ladder": (1, *LADDER),
        "tried": {8},
        "baseline": Setting(value=8),
    }
    return assess(
        setting if isinstance(setting, Setting) else Setting(value=setting),
        before=before if isinstance(before, Setting) else Setting(value=before),
        **{**given, **changes},
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (risk(16), ("medium", False, ("drains",))),
        (risk(64), ("medium", False, ("step of 3 ladder values", "drains"))),
        (risk(law(8)), ("medium", False, ("law", "drains"))),
        (
            risk(law(4)),
            ("high", False, ("law", "1 ladder values beyond what was tried", "drains")),
        ),
        (risk(7), ("medium", False, ("beyond what was tried", "drains"))),
        (risk(4, tried={4}), ("medium", False, ("drains",))),
        (risk(8, before=16), ("low", True, ("drains", "lowers risk"))),
        (risk(16, before=64), ("low", True, ("drains", "lowers risk"))),
        (
            risk(4, safer="down"),
            ("medium", False, ("1 ladder values beyond what was tried", "drains")),
        ),
        (risk(4, safer="down", tried={2}), ("low", True, ("drains", "lowers risk"))),
        (risk(16, spec=LIVE), ("medium", False, ())),
    ],
)
def test_the_class_follows_from_the_facts(found: Assessed, expected: tuple[Any, ...]) -> None:
    assert (found.risk, found.lowers, found.why) == expected


def test_without_a_ladder_half_the_range_is_a_long_step() -> None:
    assert risk(64, ladder=()).why == ("step of 89% of the range", "drains")
    assert risk(16, ladder=()).why == ("drains",)


def test_a_low_knob_becomes_medium_and_a_high_one_stays_high() -> None:
    low, high = (msgspec.structs.replace(CAP, risk=one) for one in ("low", "high"))
    assert risk(1, spec=low).risk == "medium"
    assert risk(16, spec=low).risk == "low"
    assert risk(1, spec=high).risk == "high"
    assert risk(8, before=16, spec=high).risk == "medium"


def test_high_risk_needs_two_people_unless_it_lowers_risk() -> None:
    high = msgspec.structs.replace(CAP, risk="high")
    assert risk(16, spec=high).approvals_needed == 2
    assert risk(8, before=16, spec=high).approvals_needed == 1
    assert risk(16).approvals_needed == 1
    assert Assessed(risk="high", lowers=True, why=()).approvals_needed == 1


def test_back_to_the_baseline_lowers_risk_also_from_a_law() -> None:
    assert risk(8, before=law(4)).lowers
    assert not risk(4, before=law(4)).lowers
    assert risk(law(8), before=16, baseline=law(8)).lowers
    assert not risk(8, before=8).lowers


@given(setting=choices.settings, before=choices.settings)
def test_nothing_that_goes_beyond_what_was_tried_and_off_the_baseline_lowers_risk(
    setting: Setting, before: Setting
) -> None:
    spec = msgspec.structs.replace(CAP, low=choices.LOW, capacity=choices.CAPACITY, boot=100)
    found = assess(
        setting,
        before=before,
        spec=spec,
        ladder=(),
        tried=(),
        baseline=Setting(value=100),
        safer="down",
    )
    assert found.risk in CLASSES
    beyond = any("beyond" in fact for fact in found.why)
    at_baseline = setting.value == 100
    assert not (beyond and found.lowers and not at_baseline)
    assert (found.approvals_needed == 2) == (found.risk == "high" and not found.lowers)
