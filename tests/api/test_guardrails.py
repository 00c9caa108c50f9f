"""Bounds, evaluations and declared changes over REST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.plane import Plane


def evaluated(plane: Plane, value: int, **more: Any) -> Any:
    body = {"target": "chat", "knob": "active_cap", "setting": {"value": value}, **more}
    answer = plane.call("viewer", "POST", "/v1/guardrails/evaluate", body)
    assert answer.status == 200, answer.body
    return answer


def outcomes(found: Any) -> dict[str, str]:
    return {one["guardrail"]: one["outcome"] for one in reversed(found["guardrails"])}


def test_an_evaluation_says_what_a_change_would_meet_and_changes_nothing(calm: Plane) -> None:
    with calm.world.store.read() as tx:
        before = (len(tx.audit()), calm.world.store.writes)
    found = evaluated(calm, 64)
    assert (found["words"], found["admitted"], found["begins"]) == (
        "active_cap 8 → 64",
        True,
        "now",
    )
    assert found["risk"] == {
        "risk": "medium",
        "lowers": False,
        "why": ["step of 3 ladder values", "drains"],
    }
    assert found["approvals_needed"] == 1
    assert found["changes"] == {"active_cap": "8 → 64"}
    assert found["after"]["active_cap"]["value"] == 64
    assert found["now"]["active_cap"]["value"] == 8
    assert outcomes(found)["ladder"] == "exempt"
    with calm.world.store.read() as tx:
        assert (len(tx.audit()), calm.world.store.writes) == before


def test_what_a_person_may_a_rule_may_not(calm: Plane) -> None:
    found = evaluated(calm, 64, origin="rule")
    assert (found["admitted"], found["begins"]) == (False, "never")
    ladder = next(one for one in found["guardrails"] if one["guardrail"] == "ladder")
    assert (ladder["outcome"], ladder["figures"]) == ("deny", {"steps": 3.0, "allowed": 1.0})
    assert outcomes(evaluated(calm, 4, origin="rule", emergency=True))["rate"] == "exempt"


def test_a_value_beyond_the_engine_is_a_finding_and_an_unknown_knob_is_422(calm: Plane) -> None:
    found = evaluated(calm, 65)
    assert [one["outcome"] for one in found["guardrails"]] == ["deny"]
    for wrong in ({"knob": "no_such"}, {"scope": "nobody"}, {"scope": "live"}):
        body = {"target": "chat", "knob": "active_cap", "setting": {"value": 8}, **wrong}
        refused = calm.call("viewer", "POST", "/v1/guardrails/evaluate", body)
        assert (refused.status, refused["field"]) == (422, next(iter(wrong)))


def test_the_bounds_in_force_are_shown_with_whom_each_binds(calm: Plane) -> None:
    found = calm.get("/v1/targets/chat/guardrails")
    cap = found["knobs"]["active_cap"]
    assert (cap["low"], cap["high"], cap["ladder"]) == (1, 64, [2, 4, 8, 16, 32, 64])
    assert cap["figures"]["max_per_hour"] == 12.0
    rails = {(one["name"], one["at"]): one["binds"] for one in found["rails"]}
    assert rails["bounds", "proposal"] == ["emergency", "loop", "person"]
    assert rails["freeze", "start"] == ["loop", "person"]
    assert calm.get("/v1/targets/nowhere/guardrails").status == 404


def test_a_declared_change_makes_trials_wait_and_is_ended_once(plane: Plane) -> None:
    body = {"target": "chat", "kind": "deploy", "reason": "model v12"}
    made = plane.post("/v1/changes", body)
    assert (made.status, made["kind"], made["words"], made["until_us"]) == (
        201,
        "deploy",
        "model v12",
        None,
    )
    path = f"/v1/changes/{made['id']}"
    assert made.headers["location"] == path
    assert outcomes(evaluated(plane, 16))["change"] == "wait"
    assert evaluated(plane, 16)["begins"] == "waits"
    assert [one["id"] for one in plane.get("/v1/changes?target=chat")["items"]] == [made["id"]]
    assert plane.get("/v1/targets/chat/guardrails")["changes"][0]["id"] == made["id"]
    ended = plane.post(f"{path}/end")
    assert ended["until_us"] is not None
    assert plane.get(path).body == ended.body
    assert plane.post(f"{path}/end").status == 409
    assert plane.get("/v1/changes?from=2030-01-01T00:00:00Z")["items"] == []


@pytest.mark.parametrize(
    ("more", "status", "field"),
    [
        ({"kind": "party"}, 422, "kind"),
        ({"until_us": 5}, 422, "until_us"),
        ({"from_us": 5}, 422, "from_us"),
        ({"until_us": 5, "duration_s": 5}, 422, "body"),
        ({"target": "nowhere"}, 404, "target"),
    ],
)
def test_what_is_no_change_is_refused(
    calm: Plane, more: dict[str, Any], status: int, field: str
) -> None:
    body = {"target": "chat", "kind": "deploy", "reason": "v12", **more}
    refused = calm.post("/v1/changes", body)
    assert (refused.status, refused["field"]) == (status, field)


def test_a_denied_proposal_names_the_guardrail_and_its_figures(plane: Plane) -> None:
    assert plane.proposed(16).status == 201
    denied = plane.proposed(16)
    assert (denied.status, denied["field"], denied["value"]) == (409, "guardrail", "duplicate")
    decision = plane.get("/v1/decisions?target=chat")["items"][0]
    assert (decision["guardrail"], decision["source"]) == ("duplicate", "person:operator")


def test_policies_are_found_by_who_what_and_when(plane: Plane) -> None:
    made = plane.proposed(16)
    plane.world.run(1)
    later = plane.proposed(4)
    plane.post(f"/v1/policies/{later['id']}/reject", {"reason": "no"})

    def ids(query: str) -> list[str]:
        found = plane.get(f"/v1/policies?target=chat&{query}")
        assert found.status == 200, found.body
        return [one["id"] for one in found["items"]]

    both = [later["id"], made["id"]]
    assert ids("origin=person&knob=active_cap&scope=target") == both
    assert ids(f"proposed_by={made['proposed_by']}&state=pending") == [made["id"]]
    assert ids("origin=rule") == ids("verdict=HARMED") == ids("scope=live") == []
    assert ids(f"from={later['created_us']}") == [later["id"]]
    assert ids(f"to={later['created_us']}") == [made["id"]]
    assert plane.get("/v1/policies?from=yesterday").status == 422


def test_a_policy_says_what_it_still_needs(plane: Plane) -> None:
    made = plane.proposed(16)
    assert made["needs"] == "one approval by an operator, approver or admin other than the proposer"
    approve = f"/v1/policies/{made['id']}/approve"
    approved = plane.post(approve, {"shown_digest": made["shown_digest"]}, who="other")
    assert (approved["state"], approved["needs"]) == ("approved", "")


def test_high_risk_is_seconded_before_it_is_approved(plane: Plane) -> None:
    law = {
        "variable": "arrivals",
        "window_s": 2.0,
        "default": 64,
        "steps": [{"above": 0, "value": 4}],
    }
    body = {"target": "chat", "knob": "active_cap", "setting": {"law": law}, "reason": "bold"}
    made = plane.post("/v1/policies", body)
    assert (made["risk"], made["approvals_needed"]) == ("high", 2)
    path = f"/v1/policies/{made['id']}/approve"
    yes = {"shown_digest": made["shown_digest"]}
    seconded = plane.post(path, yes, who="other")
    assert (seconded.status, seconded["state"]) == (200, "pending")
    assert seconded["needs"] == "one more approval, by an approver or admin"
    assert plane.post(path, yes, who="other").status == 409
    assert plane.post(path, yes, who="approver")["state"] == "approved"
    history = plane.get(f"/v1/policies/{made['id']}")["history"]
    assert [one["action"] for one in history][-2:] == ["policy.seconded", "policy.approved"]
