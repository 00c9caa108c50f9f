"""An emergency acts before anybody looks, so only where that was declared safer."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load
from controller.rule_loading import load_rules
from controller.rules import safety
from controller.settings import TargetSettings
from signals.errors import Rejected
from tests.rules.test_candidates import looked


def target(move: Any, *, safer: str | None = None, baseline: bool = True) -> TargetSettings:
    rule = {"id": "slow", "when": "live.attainment < 0.9", "emergency": True}
    return TargetSettings.model_validate(
        {
            "maximize": "live.tokens_per_s",
            "intents": {"live": {"class": "interactive", "slo": {"ttft_ms": 500}}},
            "baseline": {"active_cap": 8} if baseline else {},
            "knobs": {"active_cap": {"safer": safer}},
            "rules": [{**rule, "propose": {"active_cap": move}}],
        }
    )


def test_the_documented_examples_are_true() -> None:
    assert doctest.testmod(safety).failed == 0


@pytest.mark.parametrize(
    ("move", "safer"), [("down", "down"), ("up", "up"), (4, "down"), (8, "down"), (8, None)]
)
def test_what_leads_to_safety_is_loaded(move: Any, safer: str | None) -> None:
    assert load_rules(target(move, safer=safer), []).rules[0].emergency


@pytest.mark.parametrize(
    ("move", "safer"), [("up", "down"), ("down", None), (16, "down"), (4, "up"), (4, None)]
)
def test_what_leads_away_is_refused_when_loaded(move: Any, safer: str | None) -> None:
    with pytest.raises(Rejected) as refused:
        load_rules(target(move, safer=safer), [])
    assert refused.value.field == "rules[0].propose"
    assert "rule slow is an emergency" in refused.value.detail


def test_a_value_without_a_baseline_cannot_be_called_safe() -> None:
    with pytest.raises(Rejected, match="no declared baseline"):
        load_rules(target(4, safer="down", baseline=False), [])


def test_a_file_s_emergencies_are_checked_too() -> None:
    rule = {"id": "more", "when": "live.waiting > 1.0", "emergency": True}
    sound, wrong = looked({**rule, "propose": {"active_cap": "up"}})
    assert sound == []
    assert wrong[0][1].startswith("rules[0].propose: rule more is an emergency")


def test_the_rules_that_ship_are_sound() -> None:
    settings = load(Path("trimtab.yaml"), {})
    assert settings.targets
    for one in settings.targets.values():
        assert load_rules(one, settings.metrics).rules
