"""What the audit says of policies and keys, entry by entry, and whether their rows agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from controller.store.audit_file import KeyRow, PolicyRow
from controller.store.key_rows import key_content
from controller.store.policy_rows import content
from policies.audit import Entry
from policies.lifecycle import MOVES, STATES, State
from policies.policy import Policy

MOVING: Final[dict[str, State]] = {f"policy.{state}": state for state in STATES}
COLUMNS: Final = ("id", "target", "knob", "state", "rev", "updated_us")


class Life(Struct, frozen=True, kw_only=True):
    """Where the audit left a policy: the entry that says so, and the digest of its body then."""

    state: State
    rev: int
    content: object
    entry: int


class PolicyHistories:
    """Every policy's life so far, from the audit alone."""

    def __init__(self) -> None:
        self._lives: dict[str, Life] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; findings where it is no legal next move of its policy."""
        state = MOVING.get(entry.action)
        if state is None:
            return
        before = self._lives.get(entry.subject)
        for complaint in _complaints(before, state, entry.details):
            yield f"audit entry {entry.index}: policy {entry.subject} {complaint}"
        self._lives[entry.subject] = Life(
            state=state,
            rev=0 if before is None else before.rev + 1,
            content=entry.details.get("content"),
            entry=entry.index,
        )

    def check(self, row: PolicyRow) -> Iterator[str]:
        """Findings where a row is not what the audit's last entry of it says."""
        life = self._lives.pop(str(row.id), None)
        name = f"policy {row.id}"
        if life is None:
            yield f"{name}: the row is there, the audit has no entry of it"
            return
        if row.state != life.state:
            yield f"{name}: row says {row.state}, audit says {life.state}"
        if row.rev != life.rev:
            yield f"{name}: row says rev {row.rev}, audit says rev {life.rev}"
        if not isinstance(row.body, str) or content(row.body) != life.content:
            yield f"{name}: its body is not the one that audit entry {life.entry} recorded"
        yield from (f"{name}: {complaint}" for complaint in _disagreements(row))

    def gone(self) -> Iterator[str]:
        """Policies that the audit knows and no checked row was of. Call it last."""
        for policy_id, life in self._lives.items():
            yield f"policy {policy_id}: audit says {life.state}, the row is gone"


class KeyHistories:
    """Every key's last recorded content: a key slipped in beside the audit is a way in."""

    def __init__(self) -> None:
        self._contents: dict[str, object] = {}

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; findings where it is no legal next step of its key."""
        if entry.action not in ("key.created", "key.revoked"):
            return
        known = entry.subject in self._contents
        if known == (entry.action == "key.created"):
            yield f"audit entry {entry.index}: key {entry.subject} can't be {entry.action} here"
        self._contents[entry.subject] = entry.details.get("content")

    def check(self, row: KeyRow) -> Iterator[str]:
        """Findings where a row is not what the audit says."""
        recorded = self._contents.pop(str(row.id), None)
        if recorded is None:
            yield f"key {row.id}: the row is there, the audit has no entry of it"
        elif not isinstance(row.token_sha256, bytes) or not isinstance(row.body, str):
            yield f"key {row.id}: the row is not as it is written"
        elif key_content(row.token_sha256, row.body) != recorded:
            yield f"key {row.id}: its token or its rights are not the ones that were recorded"

    def gone(self) -> Iterator[str]:
        """Keys that the audit knows and no checked row was of. Call it last."""
        for key_id in self._contents:
            yield f"key {key_id}: the audit has it, the row is gone"


def _complaints(before: Life | None, state: State, details: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an entry as the next one of a policy that stands at ``before``."""
    if before is None:
        if state != "proposed":
            yield f"is {state} before it was ever proposed"
        return
    if state not in MOVES[before.state]:
        yield f"goes from {before.state} to {state}, which the lifecycle does not allow"
    if details.get("before") != before.state or details.get("after") != state:
        yield f"is said to go from {details.get('before')} to {details.get('after')}"
    if details.get("rev") != before.rev + 1:
        yield f"comes to rev {details.get('rev')} after rev {before.rev}"


def _disagreements(row: PolicyRow) -> Iterator[str]:
    """Columns that do not say what the row's own body says."""
    try:
        body = msgspec.json.decode(cast(str, row.body), type=Policy)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError):
        return
    for column in COLUMNS:
        said, meant = getattr(row, column), getattr(body, column)
        if said != meant:
            yield f"column {column} says {said!r}, its body says {meant!r}"
