"""``trimtab rules`` as a person meets it: offline checks, tests on history, how rules stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controller.doctoring import Seen, examine
from tests.cli.conftest import Served
from tests.cli.running import Trimtab

CONFIGURATION = """
targets:
  chat:
    maximize: live.tokens_per_s
    intents: {live: {class: interactive, slo: {ttft_ms: 500}}}
    rules:
      - {id: good, when: "live.waiting > 1.0", propose: {active_cap: down}}
      - {id: slow, when: "live.attainmnt < 0.9", propose: {active_cap: down}}
      - {id: fast, when: "live.waiting < 1.0", emergency: true, propose: {active_cap: up}}
"""


def test_a_file_is_checked_without_a_server_and_every_problem_told(tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(CONFIGURATION)
    done = Trimtab(tmp_path)("rules", "check", str(file), "--json")
    assert done.code == 2, done.err
    (chat,) = json.loads(done.out)["targets"]
    assert [one["id"] for one in chat["rules"]] == ["good"]
    told = {one["rule"]: one for one in chat["problems"]}
    assert "line 1 column 5" in told["slow"]["detail"]
    assert "live.attainment" in told["slow"]["detail"]
    assert told["fast"]["field"] == "rules[2].propose"
    assert "2 problems" in done.err


def test_check_tells_the_problems_of_all_rules_at_once(tmp_path: Path) -> None:
    trimtab = Trimtab(tmp_path)
    (tmp_path / "trimtab.yaml").write_text(CONFIGURATION)
    done = trimtab("check")
    assert done.code == 2
    assert "2 settings are refused" in done.err
    assert "targets.chat.rules[1].when = 'live.attainmnt < 0.9': rule slow" in done.err
    assert "targets.chat.rules[2].propose: rule fast is an emergency" in done.err


def test_a_candidate_is_tested_over_rest_by_who_may_only_look(
    served: Served, tmp_path: Path
) -> None:
    served.plane.world.run(40)
    file = tmp_path / "rules.yaml"
    busy = {"id": "busy", "when": "batch.tokens_per_s > 300.0", "propose": {"active_cap": "down"}}
    file.write_text(json.dumps({"rules": [busy]}))
    words = ("rules", "test", "--target", "chat", "--since", "2m", "--rules", str(file))
    done = served.as_("viewer")(*words)
    assert done.code == 0, done.err
    assert "active_cap 8 → 4" in done.out
    assert "guardrails not evaluated" in done.out
    listed = served.as_("viewer")("rules", "list", "--target", "chat")
    assert (listed.code, listed.out.strip()) == (0, "no rules")


def test_the_doctor_fails_while_the_file_is_refused() -> None:
    calm: dict[str, Any] = {"now_us": 0, "targets": {}, "features": {}, "letters": {}, "rates": {}}
    told: dict[str, Any] = {
        "items": [],
        "problem": "rule slow, line 1 column 5",
        "restart": ["serve.tick_ms"],
    }
    found = examine(Seen(**calm, rules=told))
    assert [(one.level, one.about) for one in found] == [("FAIL", "rules"), ("WARN", "rules")]
    assert "line 1 column 5" in found[0].what
    assert examine(Seen(**calm, rules={**told, "problem": None, "restart": []})) == []
