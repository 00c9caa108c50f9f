"""What is refused, and in which words: path, value and what was allowed, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load, validate
from controller.config.problems import BadSettings
from signals.errors import Rejected

TARGET: dict[str, Any] = {
    "maximize": "batch.tokens_per_s",
    "intents": {"live": {"class": "interactive"}, "batch": {"class": "batch"}},
}


def with_target(**changes: Any) -> dict[str, Any]:
    return {"targets": {"chat": TARGET | changes}}


def with_knob(**knob: Any) -> dict[str, Any]:
    return with_target(knobs={"active_cap": knob})


def refused(tree: dict[str, Any]) -> BadSettings:
    with pytest.raises(BadSettings) as caught:
        validate(tree, source="trimtab.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("tree", "path", "told"),
    [
        ({"serve": {"port": 0}}, "serve.port", "1..65535 port"),
        ({"serve": {"port": "many"}}, "serve.port", "1..65535 port"),
        ({"serve": {"prot": 1}}, "serve.prot", "did you mean port?"),
        ({"srve": {}}, "srve", "did you mean serve"),
        ({"trial": {"alpha": 0.5}}, "trial.alpha", "above 0..0.2 probability"),
        ({"trial": {"alpha": 0}}, "trial.alpha", "above 0..0.2 probability"),
        ({"trial": {"block_s": 0.5}}, "trial.block_s", "1..3600 s"),
        ({"bus": {"commit_ms": -1}}, "bus.commit_ms", "0..1000 ms"),
        ({"metrics": {"Bad": {}}}, "metrics.Bad", "is no name"),
        ({"metrics": {"m": {"low": 2.0}}}, "metrics", "low = 2.0 must be below high = 1.0"),
        ({"metrics": {"error": {}}}, "metrics", "error_rate is a feature of the engine already"),
        ({"metrics": {"m": {"owner": "Us"}}}, "metrics", "owner = 'Us' is no team's name"),
        ({"metrics": {"m": {"direction": "left"}}}, "metrics.m.direction", "up, down"),
        (with_target(on_kill="stop"), "targets.chat.on_kill", "hold, last_stable, baseline"),
        (with_target(on_kil="hold"), "targets.chat.on_kil", "did you mean on_kill?"),
        (with_target(maximize="live.attainment"), "targets.chat.maximize", "tokens_per_s"),
        (with_target(maximize="night.tokens_per_s"), "targets.chat", "it has batch, live"),
        (with_target(intents={}), "targets.chat.intents", "at least 1"),
        (with_target(intents={"target": {}}), "targets.chat.intents", "is reserved"),
        (with_target(engine={"kind": "vllm"}), "targets.chat.engine.kind", "embedded"),
        (with_target(baseline={"active_cap": "low"}), "targets.chat.baseline.active_cap", "low"),
        (with_target(knobs={"default": "yes"}), "targets.chat.knobs.default", "observe, approve"),
        (with_knob(mode="atuo"), "targets.chat.knobs.active_cap.mode", "observe, approve, auto"),
        (with_knob(mood="auto"), "targets.chat.knobs.active_cap.mood", "did you mean mode?"),
        (with_knob(ladder=[4, 2]), "targets.chat.knobs.active_cap", "must rise strictly"),
        (with_knob(range=[9, 2]), "targets.chat.knobs.active_cap", "[lowest, highest]"),
        (with_knob(ladder=[2], range=[1, 2]), "targets.chat.knobs.active_cap", "not both"),
        (with_target(rules=[{"id": "a"}]), "targets.chat.rules[0].when", "is missing"),
        ({"targets": {"chat": {}}}, "targets.chat.maximize", "is missing"),
    ],
)
def test_a_bad_setting_is_refused_with_path_and_what_is_allowed(
    tree: dict[str, Any], path: str, told: str
) -> None:
    error = refused(tree)
    lines = [problem.line() for problem in error.problems if problem.path == path]
    assert lines, f"{path} is not among {[problem.path for problem in error.problems]}"
    assert told in lines[0]
    assert "[trimtab.yaml]" in lines[0]


def test_all_problems_are_listed_at_once_with_their_values() -> None:
    error = refused({"serve": {"port": 0, "prot": 1}, "trial": {"alpha": 7}, "features": {"x": 1}})
    found = {problem.path for problem in error.problems}
    assert found == {"serve.port", "serve.prot", "trial.alpha", "features.x"}
    assert "4 settings are refused" in error.detail
    assert "trial.alpha = 7" in error.detail


def test_a_bare_off_which_yaml_takes_for_false_is_told_to_be_quoted() -> None:
    with pytest.raises(BadSettings, match=r'learner\.algorithm = False: write "off" in quotes'):
        validate({"learner": {"algorithm": False}})


def test_two_targets_cannot_share_this_machines_engine() -> None:
    error = refused({"targets": {"a": TARGET, "b": TARGET}})
    assert "a, b all use this machine's engine" in error.detail


def test_two_listeners_cannot_share_a_port() -> None:
    error = refused({"serve": {"port": 9000}, "ingest": {"port": 9000}})
    assert "ingest.port and serve.port are both 9000" in error.detail
    error = refused(with_target() | {"engine": {"port": 0}})
    assert "engine.port = 0 (any)" in error.detail


def test_a_name_given_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "trimtab.yaml"
    file.write_text("serve:\n  port: 8000\n  port: 9000\n")
    with pytest.raises(Rejected, match=r"(?s)'port' is given twice.*line 3"):
        load(file, {})


@pytest.mark.parametrize("text", ["serve: [", "- a\n- b\n", "just words"])
def test_a_file_that_holds_no_sections_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trimtab.yaml"
    file.write_text(text)
    with pytest.raises(Rejected, match=r"is not YAML|must hold sections"):
        load(file, {})


@pytest.mark.parametrize(
    "text",
    ["a: {{ x }}", "? [a]\n: b", "a: 2024-13-45", "a: !!int b", "a: !!timestamp b", "[" * 5000],
)
def test_a_value_that_yaml_cannot_make_is_refused_as_no_yaml(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trimtab.yaml"
    file.write_text(text)
    with pytest.raises(Rejected, match="is not YAML"):
        load(file, {})


def test_a_missing_file_is_refused_when_it_was_named(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read"):
        load(tmp_path / "none.yaml", {})


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("TRIMTAB_SERVE__PORT", "70000", "serve.port = 70000"),
        ("TRIMTAB_SERVE__PROT", "1", "did you mean port?"),
        ("TRIMTAB_SEREV__PORT", "1", "did you mean serve"),
    ],
)
def test_a_bad_variable_is_refused_by_its_name(variable: str, text: str, told: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load(None, {variable: text})
    assert told in caught.value.detail
    assert f"[{variable}]" in caught.value.detail


def test_a_variable_below_a_value_is_refused() -> None:
    with pytest.raises(Rejected, match="below port, a value"):
        load(None, {"TRIMTAB_SERVE__PORT": "1", "TRIMTAB_SERVE__PORT__HIGH": "2"})
