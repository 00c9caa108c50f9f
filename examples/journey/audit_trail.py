"""The audit export, read by an outsider: each line's hash, the order, and each policy's way."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entry = Mapping[str, Any]


class NotAnAuditError(Exception):
    """A line of the export is not what it claims to be."""


def read_export(lines: Iterable[str]) -> list[Entry]:
    """The entries, each checked against its RFC 9162 leaf hash and its place."""
    entries: list[Entry] = []
    for place, raw in enumerate(lines):
        line = json.loads(raw)
        stored = line["entry"].encode()
        if hashlib.sha256(b"\x00" + stored).hexdigest() != line["leaf_hash"]:
            raise NotAnAuditError(f"entry {place} does not match its leaf hash")
        entry = json.loads(stored)
        if not place == line["index"] == entry["index"]:
            raise NotAnAuditError(f"entry {entry['index']} stands in place {place}")
        entries.append(entry)
    return entries


@dataclass(frozen=True, kw_only=True)
class TrialTrail:
    """What the audit says of one trial, in its order."""

    id: str
    policy_id: str
    plan: Mapping[str, Any]
    frozen_at: int
    units: Sequence[Entry]
    trips: Sequence[Entry]
    doubled_from: float
    verdict: Entry | None


def trials_in(entries: Sequence[Entry]) -> list[TrialTrail]:
    """Every trial that was frozen."""
    return [_trail(entry, entries) for entry in entries if entry["action"] == "trial.frozen"]


def moves_of(entries: Sequence[Entry], policy_id: str) -> list[Entry]:
    """The lifecycle entries of a policy, in order. One yes of two is none: its state stays."""
    return [
        entry
        for entry in entries
        if entry["subject"] == policy_id
        and entry["action"].startswith("policy.")
        and entry["action"] != "policy.seconded"
    ]


def states_of(entries: Sequence[Entry], policy_id: str) -> list[str]:
    """The states that a policy went through."""
    return [entry["action"].removeprefix("policy.") for entry in moves_of(entries, policy_id)]


def _trail(frozen: Entry, entries: Sequence[Entry]) -> TrialTrail:
    mine = [entry for entry in entries if entry["subject"] == frozen["subject"]]
    verdicts = [entry for entry in mine if entry["action"] == "trial.verdict"]
    return TrialTrail(
        id=frozen["subject"],
        policy_id=frozen["details"]["policy"],
        plan=frozen["details"]["plan"],
        frozen_at=frozen["index"],
        units=[entry for entry in mine if entry["action"] == "trial.unit"],
        trips=[entry for entry in mine if entry["action"] == "trial.latency_trip"],
        doubled_from=min(
            (e["details"]["from_unit"] for e in mine if e["action"] == "trial.doubled"),
            default=math.inf,
        ),
        verdict=verdicts[0] if verdicts else None,
    )
