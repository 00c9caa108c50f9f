"""What was asked of the feature stage, by whom, and what became of it.

The audit says what was asked; the feature stage's own record, kept for the latest commands, what
became of it. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from controller.feedback import ACTIONS, PREFIX, REFUSED, UNCONFIRMED
from controller.inspection import Inspection
from controller.store.port import Principal, Tx
from policies.audit import Entry
from signals.errors import NotFound
from signals.events import MICROS
from signals.features.operating import CommandOutcome

State = Literal["waiting", "done", "refused", "unconfirmed", "forgotten"]

REMEMBERED_US: Final = 86_400 * MICROS
"""A command of which nothing is known after so long is called forgotten, not waiting."""


class CommandEvent(Struct, frozen=True, kw_only=True):
    """One event of a command: which target's partition it went to, and what it did there."""

    id: str
    target: str
    state: State
    outcome: CommandOutcome | None
    details: dict[str, Any]


class CommandSeen(Struct, frozen=True, kw_only=True):
    """A command. ``actor`` is a key's id, ``by`` whose it is; ``state``: that of the event which is
    least far."""

    id: str
    command: str
    actor: str
    by: str
    at_us: int
    reason: str
    state: State
    events: tuple[CommandEvent, ...]


FURTHEST: Final[tuple[State, ...]] = ("waiting", "unconfirmed", "refused", "forgotten", "done")


def command(tx: Tx, inspection: Inspection, id_: str, *, now_us: int) -> CommandSeen:
    """One command. Raises ``NotFound``."""
    entries = tx.audit(subject=id_) if id_.startswith(f"{PREFIX}_") else []
    asked = [entry for entry in entries if entry.action in ACTIONS]
    if not asked:
        raise NotFound(f"no command {id_!r}", field="command_id", value=id_)
    failed = {
        str(entry.details["event"]): entry.action
        for entry in entries
        if entry.action in (REFUSED, UNCONFIRMED)
    }
    events = tuple(
        _event(entry, inspection.command(str(entry.details["event"])), failed, now_us=now_us)
        for entry in asked
    )
    first = asked[0]
    return CommandSeen(
        id=id_,
        command=ACTIONS[first.action],
        actor=first.actor,
        by=_name_of(tx.keys(), first.actor),
        at_us=first.at_us,
        reason=str(first.details["reason"]),
        state=min((event.state for event in events), key=FURTHEST.index),
        events=events,
    )


def commands(
    tx: Tx,
    inspection: Inspection,
    *,
    target: str | None,
    before: str | None,
    limit: int,
    now_us: int,
) -> Sequence[CommandSeen]:
    """The latest commands, newest first; of one target, those that went to it."""
    ids = tx.subjects(f"{PREFIX}_", target=target, before=before, limit=limit)
    return [command(tx, inspection, id_, now_us=now_us) for id_ in ids]


def _name_of(keys: Iterable[Principal], key_id: str) -> str:
    return next((key.name for key in keys if key.id == key_id), key_id)


def _event(
    entry: Entry, outcome: CommandOutcome | None, failed: dict[str, str], *, now_us: int
) -> CommandEvent:
    id_ = str(entry.details["event"])
    return CommandEvent(
        id=id_,
        target=entry.target,
        state=_state(outcome, failed.get(id_), age_us=now_us - entry.at_us),
        outcome=outcome,
        details={name: value for name, value in entry.details.items() if name != "event"},
    )


def _state(outcome: CommandOutcome | None, failed: str | None, *, age_us: int) -> State:
    if outcome is not None:
        return "done"
    if failed == REFUSED:
        return "refused"
    if age_us > REMEMBERED_US:
        return "forgotten"
    return "waiting" if failed is None else "unconfirmed"
