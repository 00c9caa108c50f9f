"""Rules of a file that is not in force: every problem, each with its rule and position."""

from __future__ import annotations

from typing import Any

import pytest

from controller.rules.candidates import problems, rules_in
from signals.errors import Rejected

DOWN = {"active_cap": "down"}


def looked(*raw: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """Ids of sound rules, and (rule, words) of what is wrong."""
    sound, wrong = problems(
        list(raw),
        intents=["live"],
        metrics=["thumbs"],
        safer={"active_cap": "down"},
        baseline={"active_cap": 8},
    )
    return [one.id for one in sound], [(one.rule, one.words()) for one in wrong]


def test_each_rule_is_looked_at_whatever_the_others_are() -> None:
    sound, wrong = looked(
        {"id": "slow", "when": "live.attainmnt < 0.9", "propose": DOWN},
        {"id": "good", "when": "live.thumbs_rate < 0.5", "propose": DOWN},
        {"id": "ends", "when": "live.waiting > 1", "propose": DOWN},
        {"id": "good", "when": "live.waiting > 1.0", "propose": DOWN},
        {"when": "live.waiting > 1.0", "propose": {"a": 1, "b": 2}},
        "no rule",
    )
    assert sound == ["good"]
    words = dict(wrong[:3])
    assert "rules[0].when: rule slow, line 1 column 5" in words["slow"]
    assert "live.attainment" in words["slow"]
    assert "write 1.0, not 1" in words["ends"]
    assert words["good"].startswith("rules[3].id: rule good is declared twice")
    assert [one.partition(":")[0] for _, one in wrong[3:]] == [
        "rules[4].id",
        "rules[4].propose",
        "rules[5]",
    ]


def test_every_problem_of_one_rule_is_told_and_a_misspelt_name_has_near_matches() -> None:
    up = {"active_cap": "up"}
    _, wrong = looked(
        {"id": "fast", "when": "live.waitin < 1.0", "emergency": True, "propose": up},
        {"id": "slow", "whn": "live.waiting > 1.0", "for": "5 s", "propose": DOWN},
    )
    told = [words for _, words in wrong]
    assert told[0].startswith("rules[0].propose: rule fast is an emergency")
    assert told[1].startswith("rules[0].when: rule fast, line 1")
    assert told[2] == "rules[1].when: is missing"
    assert told[3].startswith("rules[1].for: ")
    assert "'5 s'" in told[3]
    assert told[4] == "rules[1].whn: unknown setting; did you mean when?"


def test_rules_stand_alone_or_in_a_whole_configuration() -> None:
    assert rules_in({"rules": [1]}, "chat") == [1]
    assert rules_in({"targets": {"chat": {"rules": [2]}}}, "chat") == [2]
    with pytest.raises(Rejected, match="no target 'other'"):
        rules_in({"targets": {"chat": {}}}, "other")
    with pytest.raises(Rejected, match="no list of rules"):
        rules_in({"metrics": {}}, "chat")
