"""A policy's life over REST."""

from __future__ import annotations

from tests.api.plane import Plane


def test_a_proposal_by_hand_waits_with_its_digest_and_words(plane: Plane) -> None:
    made = plane.proposed(16)
    assert made.status == 201
    assert made.headers["location"] == f"/v1/policies/{made['id']}"
    assert (made["state"], made["words"]) == ("pending", "active_cap 8 → 16")
    shown = plane.get(f"/v1/policies/{made['id']}")
    assert shown["shown_digest"] == made["shown_digest"]
    actions = [entry["action"] for entry in shown["history"]]
    assert actions == ["policy.proposed", "policy.pending"]


def test_what_users_do_later_can_be_a_guard_or_the_primary_metric(plane: Plane) -> None:
    body = {
        "target": "chat",
        "knob": "active_cap",
        "setting": {"value": 16},
        "reason": "more at night",
        "guards": {"answer_copied": 0.02},
        "primary": {"metric": "answer_copied", "effect": 0.05},
    }
    made = plane.post("/v1/policies", body)
    assert made.status == 201
    assert {"metric": "answer_copied", "margin": 0.02} in made["guards"]
    assert made["primary"] == {"metric": "answer_copied", "margin": 0.05}
    assert (made["provisional"], made["sized"], made["confirm_us"]) == (False, [], None)


def test_a_metric_that_is_not_in_force_or_a_margin_of_nothing_is_refused(plane: Plane) -> None:
    body = {"target": "chat", "knob": "active_cap", "setting": {"value": 16}, "reason": "why"}
    unknown = plane.post("/v1/policies", {**body, "guards": {"copied": 0.02}})
    assert (unknown.status, unknown["field"]) == (422, "metric")
    assert "answer_copied" in unknown["allowed"]
    assert plane.post("/v1/policies", {**body, "guards": {"answer_copied": 0}}).status == 422


def test_a_law_can_be_proposed(plane: Plane) -> None:
    law = {
        "variable": "arrivals",
        "class": "interactive",
        "window_s": 2.0,
        "default": 64,
        "steps": [{"above": 0, "value": 8}],
    }
    body = {
        "target": "chat",
        "knob": "active_cap",
        "setting": {"law": law},
        "reason": "interactive first",
    }
    made = plane.post("/v1/policies", body)
    assert made.status == 201
    assert made["words"] == "active_cap 8 → 8 above 0 interactive arrivals in 2 s, else 64"


def test_the_proposer_cannot_approve_his_own(plane: Plane) -> None:
    made = plane.proposed()
    path = f"/v1/policies/{made['id']}/approve"
    own = plane.post(path, {"shown_digest": made["shown_digest"]})
    assert (own.status, own["field"]) == (409, "by")
    assert plane.get(f"/v1/policies/{made['id']}")["state"] == "pending"


def test_an_approval_of_something_else_than_was_shown_is_refused(plane: Plane) -> None:
    made = plane.proposed()
    path = f"/v1/policies/{made['id']}/approve"
    refused = plane.post(path, {"shown_digest": "0" * 16}, who="other")
    assert (refused.status, refused["field"]) == (409, "shown_digest")


def test_an_approved_policy_is_tried_and_can_be_taken_back(plane: Plane) -> None:
    approved = plane.approved(16)
    assert (approved.status, approved["state"]) == (200, "approved")
    plane.world.run(2)
    path = f"/v1/policies/{approved['id']}"
    assert plane.get(path)["state"] == "on_trial"
    reason = {"reason": "enough"}
    assert plane.post(f"{path}/pause", reason)["state"] == "paused"
    assert plane.post(f"{path}/resume")["state"] == "on_trial"
    assert plane.post(f"{path}/revert", reason)["state"] == "reverting"
    plane.world.run(2)
    assert plane.get(path)["state"] == "reverted"
    assert plane.world.cap() == 8


def test_an_illegal_move_is_409_and_says_what_is_allowed(plane: Plane) -> None:
    made = plane.proposed()
    path = f"/v1/policies/{made['id']}"
    assert plane.post(f"{path}/reject", {"reason": "no"})["state"] == "rejected"
    again = plane.post(f"{path}/approve", {"shown_digest": made["shown_digest"]}, who="other")
    assert again.status == 409
    assert again["allowed"] == "nothing: rejected is final"


def test_policies_are_listed_newest_first_in_pages(plane: Plane) -> None:
    ids = []
    for value in (2, 4, 16):
        made = plane.proposed(value)
        ids.append(made["id"])
        plane.post(f"/v1/policies/{made['id']}/reject", {"reason": "no"})
        plane.world.run(0.1)
    first = plane.get("/v1/policies?target=chat&limit=2")
    assert [one["id"] for one in first["items"]] == ids[:0:-1]
    rest = plane.get(f"/v1/policies?target=chat&limit=2&before={first['next']}")
    assert ([one["id"] for one in rest["items"]], rest["next"]) == ([ids[0]], None)
    assert plane.get("/v1/policies?state=pending").body == {"items": [], "next": None}
    assert len(plane.get("/v1/policies?state=rejected&state=pending")["items"]) == 3
