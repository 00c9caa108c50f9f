"""What the audit says of policies, keys and metrics, entry by entry, and whether rows agree."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from controller.store.audit_file import DefinitionRow, KeyRow, PolicyRow
from controller.store.key_rows import key_content
from controller.store.metric_rows import definition_content
from controller.store.rows import content
from policies.audit import Entry
from policies.lifecycle import MOVES, STATES, State
from policies.policy import Policy

MOVING: Final[dict[str, State]] = {f"policy.{state}": state for state in STATES}
COLUMNS: Final = ("id", "target", "knob", "state", "rev", "updated_us")
AMENDS: Final = frozenset({"policy.seconded", "policy.sized", "policy.confirmed"})
UNKNOWN: Final = object()
"""What an archived entry recorded, while its archive is not at hand."""


def recorded(entry: Entry) -> object:
    """The digest that an entry recorded of its row's body; ``UNKNOWN`` while it is archived."""
    return UNKNOWN if entry.archived else entry.details.get("content")


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
        before = self._lives.get(entry.subject)
        state = MOVING.get(entry.action)
        if state is None and _amends(entry):
            yield from self._amended(entry, before)
        if state is None:
            return
        details = _shown(entry, before, state)
        for complaint in _complaints(before, state, details):
            yield f"audit entry {entry.index}: policy {entry.subject} {complaint}"
        self._lives[entry.subject] = Life(
            state=state,
            rev=0 if before is None else before.rev + 1,
            content=recorded(entry),
            entry=entry.index,
        )

    def _amended(self, entry: Entry, before: Life | None) -> Iterator[str]:
        """A change of a policy that stays in its state, such as one yes of several."""
        if before is None:
            yield f"audit entry {entry.index}: policy {entry.subject} was never proposed"
            return
        if not entry.archived and entry.details.get("rev") != before.rev + 1:
            yield (
                f"audit entry {entry.index}: policy {entry.subject} comes to rev"
                f" {entry.details.get('rev')} after rev {before.rev}"
            )
        self._lives[entry.subject] = Life(
            state=before.state, rev=before.rev + 1, content=recorded(entry), entry=entry.index
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
        known = life.content is not UNKNOWN
        if not isinstance(row.body, str) or (known and content(row.body) != life.content):
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
        if entry.action not in ("key.created", "key.revoked", "key.rotated", "key.superseded"):
            return
        known = entry.subject in self._contents
        if entry.action != "key.superseded" and known == (entry.action == "key.created"):
            yield f"audit entry {entry.index}: key {entry.subject} can't be {entry.action} here"
        self._contents[entry.subject] = recorded(entry)

    def check(self, row: KeyRow) -> Iterator[str]:
        """Findings where a row is not what the audit says."""
        found = self._contents.pop(str(row.id), None)
        if found is None:
            yield f"key {row.id}: the row is there, the audit has no entry of it"
        elif not isinstance(row.token_sha256, bytes) or not isinstance(row.body, str):
            yield f"key {row.id}: the row is not as it is written"
        elif found is not UNKNOWN and key_content(row.token_sha256, row.body) != found:
            yield f"key {row.id}: its token or its rights are not the ones that were recorded"

    def gone(self) -> Iterator[str]:
        """Keys that the audit knows and no checked row was of. Call it last."""
        for key_id in self._contents:
            yield f"key {key_id}: the audit has it, the row is gone"


class MetricHistories:
    """Every metric's versions: events were read under them, so none may change afterwards."""

    def __init__(self) -> None:
        self._contents: dict[tuple[str, int], object] = {}
        self._last: dict[str, int] = {}
        self._in_force: set[str] = set()

    def see(self, entry: Entry) -> Iterator[str]:
        """Take in one entry; findings where it is no legal next step of its metric."""
        name, version = entry.subject, self._last.get(entry.subject, 0)
        wrong = f"audit entry {entry.index}: metric {name} can't be {entry.action} here"
        match entry.action:
            case "metric.declared" | "metric.changed":
                ended = entry.details.get("before")
                changes = entry.action == "metric.changed"
                agrees = entry.archived or _version(entry.details) == version + 1
                if changes != (name in self._in_force) or not agrees:
                    yield wrong
                if changes and entry.archived:
                    self._contents[name, version] = UNKNOWN
                elif changes and isinstance(ended, dict):
                    self._contents[name, version] = ended.get("content")
                self._last[name] = version + 1
                self._contents[name, version + 1] = recorded(entry)
                self._in_force.add(name)
            case "metric.retired":
                agrees = entry.archived or entry.details.get("version") == version
                if name not in self._in_force or not agrees:
                    yield wrong
                self._contents[name, version] = recorded(entry)
                self._in_force.discard(name)

    def check(self, row: DefinitionRow) -> Iterator[str]:
        """Findings where a row is not what the audit says."""
        name = f"metric {row.name}@{row.version}"
        version = row.version if isinstance(row.version, int) else -1
        found = self._contents.pop((str(row.name), version), None)
        if found is None:
            yield f"{name}: the row is there, the audit has no entry of it"
        elif not all(isinstance(cell, (str, int, float, NoneType)) for cell in row):
            yield f"{name}: the row is not as it is written"
        elif found is not UNKNOWN and definition_content(row._asdict()) != found:
            yield f"{name}: it is not the definition that was recorded"

    def gone(self) -> Iterator[str]:
        """Versions that the audit knows and no checked row was of. Call it last."""
        for name, version in self._contents:
            yield f"metric {name}@{version}: the audit has it, the row is gone"


def _version(details: dict[str, Any]) -> object:
    shown = details.get("definition")
    return shown.get("version") if isinstance(shown, dict) else None


def _amends(entry: Entry) -> bool:
    """Whether an entry changes a policy without moving it: it brings it to a next rev."""
    if entry.archived:
        return entry.action in AMENDS
    return entry.action.startswith("policy.") and {"rev", "content"} <= set(entry.details)


def _shown(entry: Entry, before: Life | None, state: State) -> dict[str, Any]:
    """The entry's details; of an archived one, those that its columns leave no doubt of."""
    if not entry.archived or before is None:
        return entry.details
    return {"before": before.state, "after": state, "rev": before.rev + 1}


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
