from __future__ import annotations

import doctest
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from controller.rules import conditions as rule_conditions
from controller.rules import firing as rules
from controller.rules import settings as rule_settings
from controller.rules.firing import Rules, Timers, clear_for_s, compile_rules, fire
from controller.rules.settings import RuleSettings
from policies.knobs import KnobSpec
from signals.errors import Rejected

CAP = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64, effect_delay_s=1.0)
BUDGET = msgspec.structs.replace(CAP, name="step_token_budget", capability="unsupported")


def declared(when: str, **changes: Any) -> RuleSettings:
    fields = {"id": "slow", "when": when, "propose": {"active_cap": "down"}, "cooldown": "0s"}
    return RuleSettings.model_validate(fields | changes)


def loaded(when: str, **changes: Any) -> Rules:
    return compile_rules([declared(when, **changes)], intents=["live", "batch"], metrics=["thumbs"])


def refusal(when: str) -> Rejected:
    with pytest.raises(Rejected) as caught:
        loaded(when)
    return caught.value


def firings(found: Rules, seen: Mapping[float, Mapping[str, float]]) -> list[float]:
    """The moments, of those in ``seen``, at which the first rule fires."""
    timers, moments = Timers(), []
    for now_s, features in seen.items():
        fired, timers = fire(found, timers, features, now_s=now_s)
        moments += [now_s] * len(fired)
    return moments


LOW, HIGH = {"live.attainment": 0.8}, {"live.attainment": 0.95}


def test_the_documented_examples_are_true() -> None:
    for module in (rules, rule_settings, rule_conditions):
        assert doctest.testmod(module).failed == 0


def test_a_rule_fires_when_its_condition_has_held_for_long_enough() -> None:
    found = loaded("live.attainment < 0.9", **{"for": "3s", "cooldown": "60s"})
    assert firings(found, {float(t): LOW for t in range(10)}) == [3.0]


def test_false_in_between_starts_the_time_anew() -> None:
    found = loaded("live.attainment < 0.9", **{"for": "3s", "cooldown": "60s"})
    seen = {float(t): HIGH if t == 2 else LOW for t in range(10)}
    assert firings(found, seen) == [6.0]


def test_a_missing_feature_is_not_true_and_starts_the_time_anew() -> None:
    found = loaded("live.attainment < 0.9", **{"for": "3s", "cooldown": "60s"})
    seen: dict[float, Mapping[str, float]] = {float(t): LOW for t in range(10)}
    seen[2.0] = {"batch.waiting": 3.0}
    assert firings(found, seen) == [6.0]
    seen[2.0] = {"live.attainment": math.nan}
    assert firings(found, seen) == [6.0]


def test_a_condition_decided_without_the_missing_feature_is_decided() -> None:
    found = loaded("live.attainment < 0.9 || batch.waiting > 5.0")
    assert firings(found, {1.0: {"batch.waiting": 9.0}}) == [1.0]
    assert firings(found, {1.0: {"batch.waiting": 1.0}}) == []


def test_time_nobody_looked_at_is_not_time_the_condition_held() -> None:
    found = loaded("live.attainment < 0.9", **{"for": "60s"})
    assert firings(found, {0.0: LOW, 600.0: LOW}) == []


def test_after_firing_a_rule_is_silent_for_its_cooldown() -> None:
    found = loaded("live.attainment < 0.9", cooldown="5s")
    assert firings(found, {float(t): LOW for t in range(12)}) == [0.0, 5.0, 10.0]


def test_the_reason_and_the_evidence_carry_the_figures() -> None:
    found = loaded("live.attainment < 0.9 && batch.waiting > 0.0", **{"for": "0s"})
    features = {"live.attainment": 0.8125, "batch.waiting": 4.0, "target.arrivals_per_s": 2.5}
    (fired,), _ = fire(found, Timers(), features | {"live.running": 3.0}, now_s=0.0)
    assert fired.reason == (
        "rule slow: live.attainment < 0.9 && batch.waiting > 0.0"
        " (batch.waiting = 4, live.attainment = 0.8125)"
    )
    assert fired.evidence == features


def test_clear_counts_the_time_a_condition_is_known_to_be_false() -> None:
    found = loaded("live.attainment < 0.9")
    timers = Timers()
    clear = []
    for now_s, features in [(0.0, LOW), (1.0, HIGH), (3.0, HIGH), (4.0, {}), (5.0, HIGH)]:
        _, timers = fire(found, timers, features, now_s=now_s)
        clear.append(clear_for_s(timers, "slow", now_s=now_s))
    assert clear == [0.0, 0.0, 2.0, 0.0, 0.0]
    assert clear_for_s(timers, "unheard_of", now_s=9.0) == 0.0


def test_timers_survive_being_stored() -> None:
    found = loaded("live.attainment < 0.9", **{"for": "3s"})
    _, timers = fire(found, Timers(), LOW, now_s=0.0)
    stored = msgspec.json.decode(msgspec.json.encode(timers), type=Timers)
    assert fire(found, stored, LOW, now_s=3.0) == fire(found, timers, LOW, now_s=3.0)
    assert fire(found, stored, LOW, now_s=3.0)[0][0].held_s == 3.0


def test_a_whole_number_is_refused_with_the_way_to_write_it() -> None:
    error = refusal("live.attainment < 1")
    assert "rule slow, line 1 column 17" in error.detail
    assert "write 1.0, not 1" in error.detail
    assert error.field == "rules[0].when"


def test_a_misspelt_feature_is_refused_with_near_matches() -> None:
    error = refusal("live.atainment < 0.9")
    assert "undeclared reference to 'live.atainment'" in error.detail
    assert "did you mean live.attainment" in error.detail
    assert "live.attainment" in str(error.allowed)


def test_declared_metrics_are_features_and_undeclared_ones_are_not() -> None:
    assert loaded("live.thumbs_rate > 0.5").rules[0].reads == ("live.thumbs_rate",)
    assert "live.thumbs_rate" in refusal("live.thumb_rate > 0.5").detail


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("live.attainment <", "Syntax error"),
        ("live.attainment", "is a double, not true or false"),
        ("true", "names no feature"),
        ("'live.attainment' == 'x'", "names no feature"),
    ],
)
def test_what_is_no_condition_is_refused(when: str, why: str) -> None:
    assert why in refusal(when).detail


def test_two_rules_of_one_id_are_refused() -> None:
    with pytest.raises(Rejected, match="declared twice"):
        compile_rules(
            [declared("live.attainment < 0.9"), declared("live.attainment < 0.8")],
            intents=["live"],
            metrics=[],
        )


@pytest.mark.parametrize(
    ("propose", "why"),
    [
        ({"active_cap": "down"}, None),
        ({"active_cap": 16}, None),
        ({"active_cap": 65}, "active_cap = 65 is out of range"),
        ({"step_token_budget": "up"}, "step_token_budget is unsupported on this engine"),
        ({"batch_size": "up"}, "the engine has no knob batch_size"),
    ],
)
def test_a_rule_that_can_do_nothing_here_says_why(propose: dict[str, Any], why: str | None) -> None:
    found = loaded("live.attainment < 0.9", propose=propose).not_applicable([CAP, BUDGET])
    assert (why is None and not found) or (why is not None and why in found["slow"])


@pytest.mark.parametrize(
    "changes",
    [
        {"for": "20"},
        {"for": "-1s"},
        {"propose": {}},
        {"propose": {"active_cap": "sideways"}},
        {"propose": {"active_cap": "up", "step_token_budget": "up"}},
        {"id": "Slow"},
        {"whenever": "x"},
    ],
)
def test_a_badly_declared_rule_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        declared("live.attainment < 0.9", **changes)
