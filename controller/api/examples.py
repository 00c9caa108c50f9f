"""What may be sent, route by route, as OpenAPI shows it. A test sends each of them."""

from __future__ import annotations

from typing import Any, Final

from controller.api.access import Route

REASON: Final = {"reason": "latency alarm of 03:00; the loop waits until it is understood"}

EXAMPLES: Final[dict[Route, dict[str, Any]]] = {
    ("POST", "/v1/policies"): {
        "target": "chat",
        "knob": "active_cap",
        "setting": {"value": 16},
        "reason": "the queue grows while half of the memory is free",
    },
    ("POST", "/v1/policies/{policy_id}/approve"): {"shown_digest": "0f3a9c1b2d4e5f60"},
    ("POST", "/v1/policies/{policy_id}/reject"): REASON,
    ("POST", "/v1/policies/{policy_id}/revert"): REASON,
    ("POST", "/v1/policies/{policy_id}/pause"): REASON,
    ("POST", "/v1/targets/{target}/hold"): REASON,
    ("POST", "/v1/targets/{target}/release"): REASON,
    ("POST", "/v1/targets/{target}/kill"): REASON,
    ("POST", "/v1/kill"): {"target": "chat", **REASON},
    ("POST", "/v1/hold"): REASON,
    ("POST", "/v1/release"): REASON,
    ("POST", "/v1/targets/{target}/rollback"): {"to": "last-stable", **REASON},
    ("POST", "/v1/targets/{target}/detach"): {"expiries": "keep", **REASON},
    ("POST", "/v1/targets/{target}/attach"): REASON,
    ("PUT", "/v1/targets/{target}/baseline"): {
        "name": "night",
        "settings": {"active_cap": {"value": 8}},
        "reason": "what was proven in the last month",
    },
    ("POST", "/v1/overrides"): {
        "target": "chat",
        "kind": "pin",
        "knob": "active_cap",
        "setting": {"value": 8},
        "reason": "month's end; nothing above 8 until tomorrow",
        "expires_in_s": 43_200,
    },
    ("DELETE", "/v1/overrides/{override_id}"): REASON,
    ("PATCH", "/v1/targets/{target}/knobs/{knob}"): {"mode": "approve"},
    ("POST", "/v1/keys"): {
        "name": "eva",
        "role": "approver",
        "targets": ["chat"],
        "intents": ["live"],
        "expires_in_s": 2_592_000,
    },
    ("POST", "/v1/keys/{key_id}/rotate"): {"grace_s": 3600},
    ("PUT", "/v1/metric-definitions/{name}"): {
        "type": "boolean",
        "direction": "up",
        "attribution_s": 600,
    },
    ("POST", "/v1/dead-letters/replay"): {
        "where": {"target": "chat", "reason": "undeclared"},
        "reason": "the metric is declared now",
    },
    ("POST", "/v1/dead-letters/discard"): {"ids": ["0-17"], "reason": "a test of last week"},
    ("POST", "/v1/producers/{producer}/quarantine"): REASON,
    ("POST", "/v1/producers/{producer}/release"): REASON,
    ("POST", "/v1/changes"): {
        "target": "chat",
        "kind": "deploy",
        "reason": "version 2.4 of the gateway",
        "duration_s": 900,
    },
    ("POST", "/v1/guardrails/evaluate"): {
        "target": "chat",
        "knob": "active_cap",
        "setting": {"value": 16},
    },
    ("POST", "/v1/rules/test"): {
        "target": "chat",
        "from": "1h",
        "candidates": [
            {
                "id": "slow",
                "when": "live.attainment < 0.9",
                "for": "20s",
                "propose": {"active_cap": "down"},
            }
        ],
    },
    ("POST", "/v1/audit/seal"): {"entries": 100_000},
    ("POST", "/v1/audit/restored"): {"reason": "the disk failed; the backup of 02:00 is back"},
    ("POST", "/v1/erasures"): {
        "by": "session",
        "id": "sess-4711",
        "target": "chat",
        "reason": "its user asked for it",
    },
}
