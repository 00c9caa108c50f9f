"""``POST /v1/rules/test`` over the real loop's past: the same firings, and what they would ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.plane import Plane

FAST = {
    "id": "fast",
    "when": "batch.tokens_per_s > 300.0",
    "for": "10s",
    "cooldown": "30s",
    "propose": {"active_cap": "down"},
}
"""True in the world at a cap of 8, false at 4 and below."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Two minutes at a cap of 8, in which the loop only observes."""
    plane = Plane(tmp_path_factory.mktemp("lived"), mode="observe", rules=[FAST])
    plane.world.run(120)
    yield plane
    plane.close()


def outcome(plane: Plane, **body: Any) -> Any:
    answer = plane.call("viewer", "POST", "/v1/rules/test", {"target": "chat", **body})
    assert answer.status == 200, answer.body
    return answer.body


def test_it_fires_in_the_past_when_it_fired_in_the_loop(lived: Plane) -> None:
    told = [p for p in lived.world.policies("observed") if p.origin.kind == "rule"]
    live_us = sorted(policy.created_us for policy in told)
    (rule,) = outcome(lived, **{"from": "3m"})["rules"]
    assert live_us and rule["fired"] >= len(live_us)
    assert abs(rule["firings"][0]["at_us"] - live_us[0]) <= 10_000_000
    assert rule["firings"][0]["proposes"][0] == {
        "knob": "active_cap",
        "before": "8",
        "to": 4,
        "why": None,
    }
    assert rule["unknown_share"] < 1.0
    assert rule["per_hour"] == pytest.approx(rule["fired"] * 720 / rule["looks"])


def test_a_candidate_is_tested_and_not_put_in_force(lived: Plane) -> None:
    never = FAST | {"id": "never", "when": "batch.tokens_per_s > 1e9"}
    blind = FAST | {"id": "blind", "when": "live.kv_usage > 0.5"}
    found = outcome(lived, candidates=[never, blind], **{"from": "2m"})
    quiet, unknown = found["rules"]
    assert (quiet["id"], quiet["fired"], quiet["true_share"]) == ("never", 0, 0.0)
    assert unknown["unknown_share"] == 1.0
    assert unknown["missing"] == {"live.kv_usage": 1.0}
    assert [one.id for one in lived.world.declared.rules.rules] == ["fast"]
    assert "not evaluated" in found["guardrails"]


def test_one_rule_is_chosen_by_its_id(lived: Plane) -> None:
    assert [one["id"] for one in outcome(lived, rules=["fast"])["rules"]] == ["fast"]
    body = {"target": "chat", "rules": ["slow"]}
    refused = lived.call("viewer", "POST", "/v1/rules/test", body)
    assert (refused.status, refused["field"]) == (422, "rules")


def test_more_than_is_kept_is_cut_and_more_than_is_bounded_refused(lived: Plane) -> None:
    assert "atom_retention_s" in outcome(lived, **{"from": "5h"})["cut"]
    for span, to in (("2d", "now"), ("10h", "9h"), ("1m", "2m")):
        body = {"target": "chat", "from": span, "to": to}
        assert lived.call("viewer", "POST", "/v1/rules/test", body).status == 422


def test_a_change_meanwhile_is_no_recovery_by_itself(tmp_path: Path) -> None:
    plane = Plane(tmp_path, mode="auto", rules=[])
    plane.world.run(60)
    body = {"target": "chat", "kind": "pin", "knob": "active_cap", "setting": {"value": 4}}
    pinned = plane.post("/v1/overrides", {**body, "reason": "night", "expires_in_s": 3600})
    assert pinned.status == 201, pinned.body
    plane.world.run(60)
    (rule,) = outcome(plane, candidates=[FAST], **{"from": "3m"})["rules"]
    assert rule["firings"][-1]["recovery"] == "after a change"
    assert rule["recovered_alone"] == 0
    plane.close()
