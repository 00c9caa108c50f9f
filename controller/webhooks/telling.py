"""Which entry of the audit goes to which hook, and what the hook is told of it. Pure.

The envelope (who, what, about what, when) is told of every entry. Details are told only of the
families below: what keys, commands and erasures were about is nobody's business outside. Addresses
inside details are left out, too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controller.store.past_port import Delivery
from controller.webhooks.settings import HookSettings
from policies.audit import Entry
from policies.policy import Policy
from signals.events import MICROS

TESTED: Final = "webhook.tested"
GIVEN_UP: Final = "webhook.given_up"
REDELIVERED: Final = "webhook.redelivered"

TOLD: Final = (
    "policy.",
    "trial.",
    "override.",
    "control.",
    "change.",
    "baseline.",
    "settings.",
    "mode.",
    "engine.",
    "guardrail.",
    "drift.",
    "memory.",
    "rule.",
    "metric.",
    "webhook.",
)
"""Families whose details are told."""
UNTOLD: Final = frozenset({"content", "secret", "token", "token_sha256", "key", "file", "path"})
"""Members of details that stay here, at any depth; ``content`` binds a row for the verifier."""
ADDRESS: Final = "://"


def delivery_id(hook: str, entry: int) -> str:
    """For ever the same."""
    return f"{hook}:{entry}"


def subscribed(name: str, hook: HookSettings, entry: Entry) -> bool:
    """Whether the entry goes to the hook.

    A test goes to the hook it is of, whatever that subscribed to. What could not be told to a hook
    is not told to the same hook.
    """
    if entry.action == TESTED:
        return entry.subject == name
    if entry.action == GIVEN_UP and entry.subject == name:
        return False
    covered = "*" in hook.targets or entry.target in hook.targets
    return covered and any(_matches(pattern, entry.action) for pattern in hook.events)


def _matches(pattern: str, action: str) -> bool:
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return action.startswith(pattern[:-1])
    return action == pattern


def body_of(delivery: Delivery, entry: Entry, policy: Policy | None, *, limit: int) -> bytes:
    """The JSON that is posted, ``limit`` bytes at most, else without details; so is an entry whose
    bytes lie in an archive.

    ``policy``: the one that the entry is about; while it waits for approval, its digest is told,
    to which an approval binds.
    """
    told: dict[str, Any] = {
        "id": delivery.id,
        "event": entry.action,
        "time": _rfc3339(entry.at_us),
        "entry": entry.index,
        "target": entry.target,
        "subject": entry.subject,
        "actor": entry.actor,
        "details": _public(entry.details) if entry.action.startswith(TOLD) else {},
    }
    if policy is not None and policy.state == "pending":
        told["shown_digest"] = policy.shown_digest
    body = msgspec.json.encode(told)
    if len(body) <= limit and not entry.archived:
        return body
    return msgspec.json.encode(told | {"details": {}, "details_left_out": True})


def _public(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _public(inner) for name, inner in value.items() if name not in UNTOLD}
    if isinstance(value, (list, tuple)):
        return [_public(inner) for inner in value]
    return "(address)" if isinstance(value, str) and ADDRESS in value else value


def _rfc3339(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / MICROS, UTC).isoformat().replace("+00:00", "Z")
