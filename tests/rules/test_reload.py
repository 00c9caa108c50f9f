"""The file's rules are followed while the loop runs; what is broken changes nothing."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.config.load import load
from controller.rule_loading import load_rules
from controller.rule_reload import RuleFile
from controller.rules import swapping
from controller.rules.firing import Rules
from controller.settings import Settings
from controller.state import Declared
from signals.errors import Unavailable
from tests.loop.world import World

FAST = {
    "id": "fast",
    "when": "batch.tokens_per_s > 300.0",
    "for": "20s",
    "propose": {"active_cap": "down"},
}


class Followed:
    """A world whose rules come from a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "trimtab.yaml"
        self.world = World(folder, quality=lambda cap, intent: True, mode="observe")
        self.target = self.world.declared.target.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        self.write([FAST])
        self.settings: Settings = load(self.file, {})
        rules = load_rules(self.settings.targets["chat"], self.settings.metrics)
        self.declared: dict[str, Declared] = {
            "chat": msgspec.structs.replace(self.world.declared, rules=rules)
        }
        self.world.loop.swap(rules)
        self.rules = RuleFile(
            self.file,
            self.settings,
            self.declared,
            self.world.store,
            env={},
            swap=self.swap,
            clock=self.world.clock_us,
        )
        self.rules.look()

    def swap(self, target: str, rules: Rules) -> None:
        assert target == "chat"
        self.world.loop.swap(rules)

    def write(self, rules: list[Any], **more: Any) -> None:
        target = {**self.target, "rules": rules}
        self.file.write_text(json.dumps({"targets": {"chat": target}, **more}))

    def told(self, action: str) -> list[dict[str, Any]]:
        with self.world.store.read() as tx:
            return [e.details for e in tx.audit(after=-1, limit=1000) if e.action == action]


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def test_the_documented_examples_are_true() -> None:
    assert doctest.testmod(swapping).failed == 0


def test_a_changed_file_is_in_force_at_the_next_step_and_in_the_audit(followed: Followed) -> None:
    followed.world.run(1)
    followed.write([{**FAST, "id": "new", "for": "0s"}])
    followed.rules.look()
    followed.world.run(2)
    assert list(followed.world.loop.timers.of) == ["new"]
    assert [rule.id for rule in followed.declared["chat"].rules.rules] == ["new"]
    (entry,) = followed.told("rules.loaded")
    assert (list(entry["added"]), list(entry["removed"])) == (["new"], ["fast"])
    assert [p.origin.name for p in followed.world.policies("observed")][-1] == "new"


def test_an_unchanged_condition_keeps_its_timer_and_a_changed_one_does_not(
    followed: Followed,
) -> None:
    followed.world.run(15)
    before = followed.world.loop.timers.of["fast"]
    assert before.truth == "true"
    followed.write([{**FAST, "for": "10s"}])
    followed.rules.look()
    followed.world.run(0.5)
    after = followed.world.loop.timers.of["fast"]
    assert after.since_s == before.since_s
    assert after.fired_s is not None
    followed.write([{**FAST, "when": "batch.tokens_per_s > 301.0"}])
    followed.rules.look()
    followed.world.run(0.5)
    anew = followed.world.loop.timers.of["fast"]
    assert anew.since_s > before.since_s
    assert anew.fired_s is None


def test_a_broken_file_changes_nothing_and_is_told_once(followed: Followed) -> None:
    for broken in ([{**FAST, "when": "batch.tokens > 1.0"}], [FAST, FAST], ["no rule"]):
        followed.write(broken)
        followed.rules.look()
        followed.rules.look()
        assert followed.rules.problem is not None
    followed.file.write_text("targets: [")
    followed.rules.look()
    followed.file.unlink()
    followed.rules.look()
    followed.rules.look()
    assert len(followed.told("rules.refused")) == 5
    assert "did you mean" in followed.told("rules.refused")[0]["why"]
    assert [rule.id for rule in followed.declared["chat"].rules.rules] == ["fast"]
    assert followed.told("rules.loaded") == []
    followed.write([FAST])
    followed.rules.look()
    assert followed.rules.problem is None


def test_what_else_differs_needs_a_restart_and_is_not_taken_over(followed: Followed) -> None:
    followed.write([{**FAST, "for": "1s"}], serve={"tick_ms": 50})
    followed.rules.look()
    assert followed.rules.restart == ("serve.tick_ms",)
    (entry,) = followed.told("rules.loaded")
    assert entry["need_restart"] == ["serve.tick_ms"]
    assert list(entry["changed"]) == ["fast"]
    assert followed.declared["chat"].serve.tick_ms == 100


def test_the_same_rules_in_other_bytes_are_no_change(followed: Followed) -> None:
    followed.file.write_text(followed.file.read_text() + "\n")
    followed.rules.look()
    assert (followed.told("rules.loaded"), followed.rules.problem) == ([], None)


def test_a_file_that_is_being_written_is_left_until_it_is_whole(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.write([FAST, {**FAST, "id": "slow"}])
    whole = followed.file.read_text()
    followed.write([])

    def written_on(rest_s: float) -> None:
        assert rest_s > 0
        followed.file.write_text(whole)

    monkeypatch.setattr("controller.rule_reload.time.sleep", written_on)
    followed.rules.look()
    assert [rule.id for rule in followed.declared["chat"].rules.rules] == ["fast"]
    assert followed.told("rules.loaded") == []
    followed.rules.look()
    assert [rule.id for rule in followed.declared["chat"].rules.rules] == ["fast", "slow"]


def test_a_value_that_cannot_be_made_is_a_refusal_like_any_other(followed: Followed) -> None:
    followed.file.write_text("targets: {{ targets }}\n")
    followed.rules.look()
    (entry,) = followed.told("rules.refused")
    assert "is not YAML" in entry["why"]


@pytest.mark.parametrize(
    "text",
    [
        "store: {password: hunter2}",
        'store: {ur: "postgresql://u:hunter2@h/db"}',
        'store: {url: "postgresql://u:hunter2@h/db"\n  bad: [',
        "store:\n  url: u:hunter2@h\n  url: u:hunter2@h\n",
        "store: {busy_timeout_ms: !!int hunter2}",
    ],
)
def test_no_value_beside_rules_is_told_of_a_file_that_is_refused(
    followed: Followed, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    followed.file.write_text(text)
    followed.rules.look()
    (entry,) = followed.told("rules.refused")
    assert "store." in entry["why"] or "not YAML" in entry["why"]
    assert "hunter2" not in entry["why"] + (followed.rules.problem or "") + caplog.text
    followed.write([{**FAST, "for": "hunter2"}])
    followed.rules.look()
    assert "'hunter2'" in followed.told("rules.refused")[-1]["why"], "a rule's is"


def test_a_file_that_went_while_the_store_was_away_is_told_once_it_is_back(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise Unavailable("the store is away")

    followed.file.unlink()
    with monkeypatch.context() as broken:
        broken.setattr(followed.world.store, "write", away)
        with pytest.raises(Unavailable):
            followed.rules.look()
    followed.rules.look()
    followed.rules.look()
    assert len(followed.told("rules.refused")) == 1
