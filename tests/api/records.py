"""Records that are there, for calls that name some."""

from __future__ import annotations

from typing import Any

from tests.api.plane import Plane


def known(plane: Plane) -> dict[str, list[Any]]:
    """By parameter's or member's name: ids and names that exist, made as an operator would."""
    pending = plane.proposed(16)
    plane.approved(4)
    plane.world.run(5)
    override = plane.post(
        "/v1/overrides",
        {
            "target": "chat",
            "kind": "pin",
            "knob": "step_token_budget",
            "setting": {"value": 128},
            "reason": "a test",
            "expires_in_s": 3600,
        },
    )
    change = plane.post("/v1/changes", {"target": "chat", "kind": "deploy", "reason": "v2"})
    plane.key("spare", "viewer")
    keys = plane.call("admin", "GET", "/v1/keys")["items"]
    found = {
        "target": ["chat"],
        "knob": ["active_cap", "step_token_budget"],
        "policy_id": [one["id"] for one in plane.get("/v1/policies")["items"]],
        "shown_digest": [pending["shown_digest"]],
        "trial_id": [one["id"] for one in plane.get("/v1/trials")["items"]],
        "override_id": [override["id"]],
        "change_id": [change["id"]],
        "key_id": [one["id"] for one in keys if one["name"] == "spare"],
        "name": ["thumbs", "dwell_s"],
        "producer": ["shop"],
        "scope": ["target", "live"],
    }
    return {name: values for name, values in found.items() if values}
