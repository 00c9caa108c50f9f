"""Where settings come from, what they mean, and the pages and samples made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.load import load, validate
from controller.config.page import page
from controller.config.tree import leaves
from controller.settings import DEFAULT_METRICS, Settings, TargetSettings
from policies.knobs import KnobSpec
from policies.settings import Setting
from tests.house.tree import ROOT

CAP = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64, effect_delay_s=1.0)


def sample() -> Settings:
    return load(ROOT / "trimtab.yaml", {})


def chat(**changes: object) -> TargetSettings:
    target = {"maximize": "batch.tokens_per_s", "intents": {"batch": {"class": "batch"}}, **changes}
    return validate({"targets": {"chat": target}}).targets["chat"]


def test_the_sample_at_the_root_is_sound_and_means_what_it_says() -> None:
    target = sample().targets["chat"]
    assert target.maximized == "batch"
    assert target.intents["live"].slo.tpot_ms == 50
    assert target.baseline_settings() == {"active_cap": Setting(value=8)}
    assert target.knobs.mode("active_cap") == "approve"
    assert [rule.id for rule in target.rules] == ["slow", "idle"]
    assert sample().metrics.keys() == DEFAULT_METRICS.keys() | {"ticket_reopened"}


def test_the_environment_overrides_the_file() -> None:
    env = {
        "TRIMTAB_SERVE__PORT": "9000",
        "TRIMTAB_STATE_DIR": "elsewhere",
        "TRIMTAB_TARGETS__CHAT__KNOBS__ACTIVE_CAP__LADDER": "[1, 2]",
        "TRIMTAB_URL": "http://127.0.0.1:1",
        "PATH": "unrelated",
    }
    settings = load(ROOT / "trimtab.yaml", env)
    assert settings.serve.port == 9000
    assert settings.state_dir == Path("elsewhere")
    assert settings.targets["chat"].knobs.of("active_cap").ladder == (1, 2)


def test_without_a_file_the_defaults_hold_and_nothing_may_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load(None, {})
    assert settings.targets == {}
    assert settings.metrics == DEFAULT_METRICS
    assert settings.here() is None
    assert chat().knobs.mode("active_cap") == "observe"


def test_a_mode_of_the_file_wins_over_one_set_later_and_is_managed() -> None:
    knobs = chat(knobs={"default": "approve", "active_cap": {"mode": "observe"}}).knobs
    assert knobs.mode("active_cap", "auto") == "observe"
    assert knobs.managed("active_cap")
    assert knobs.mode("step_token_budget", "auto") == "auto"
    assert knobs.mode("step_token_budget") == "approve"
    assert not knobs.managed("step_token_budget")


def test_a_ladder_keeps_to_what_the_engine_can_take() -> None:
    knobs = chat(knobs={"a": {"ladder": [2, 64, 128]}, "b": {"range": [3, 500]}}).knobs
    assert knobs.of("a").values(CAP) == (2, 64)
    assert knobs.of("b").values(CAP) == (3, 6, 12, 24, 48, 64)
    assert knobs.of("c").values(CAP) == (1, 2, 4, 8, 16, 32, 64)


def test_the_baseline_has_another_version_as_soon_as_it_differs() -> None:
    versions = [chat(baseline={"active_cap": cap}).baseline_version for cap in (8, 8, 16)]
    assert versions[0] == versions[1] != versions[2]


def test_the_least_number_of_units_follows_from_alpha() -> None:
    def units(alpha: float) -> int:
        return validate({"trial": {"alpha": alpha}}).trial.min_units

    assert [units(alpha) for alpha in (0.01, 0.05, 0.2)] == [7, 5, 3]


def test_the_settings_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "settings.md").read_text("utf-8") == page(), "run `make docs`"


def test_every_setting_says_its_unit_and_its_reason() -> None:
    silent = [leaf.path for leaf in leaves(Settings) if not leaf.reason]
    assert silent == []
    measured = ("_s", "_ms", "_bytes", "_days")
    unitless = [
        leaf.path
        for leaf in leaves(Settings)
        if leaf.path.endswith(measured) and not leaf.unit and "metrics" not in leaf.path
    ]
    assert unitless == []
