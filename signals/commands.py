"""Commands to the feature stage, which the control plane posts with a key of its own."""

from __future__ import annotations

from typing import Final

from signals.errors import Denied, Rejected
from signals.events import Command, Erase, LetterSelection, Quarantine, Signal
from signals.rules import MAX_ID, MAX_LISTED, Rules, allow, check_id, in_time, time_us
from signals.wire import Posted

COMMAND_NAMES: Final = ("replay", "discard", "quarantine", "erase")
MAX_OFFSETS: Final = 1000
MAX_OFFSET: Final = 2**63 - 1
MAX_REASON: Final = 1000
MAX_LETTERS: Final = 10_000
MAX_ERASED_IDS: Final = 2
"""Of one person: as it is stored now, and as it was before."""
_FEEDBACK_FIELDS: Final = ("value", "request_id", "external_id", "session_id", "model", "data")


def check_command(posted: Posted, rules: Rules) -> Signal:
    """The signal, ready for the bus. Raises ``Rejected`` or ``Denied``.

    A key must name the kind ``command``: ``"*"`` does not cover it, so that no producer's key
    lets dead letters go.
    """
    if "command" not in rules.producer.kinds:
        raise Denied("the key does not allow this kind", field="kind")
    command = posted.command
    if command is None:
        raise Rejected("a command is required", field="command", allowed=COMMAND_NAMES)
    said = str(type(command).__struct_config__.tag)
    if posted.name != said:
        raise Rejected(
            f"the command says {said!r}", field="name", value=posted.name[:MAX_ID], allowed=said
        )
    for field in _FEEDBACK_FIELDS:
        if getattr(posted, field) is not None:
            raise Rejected("commands carry nothing but a command", field=field)
    if posted.target is None:
        declared = sorted(rules.targets)[:MAX_LISTED]
        raise Rejected("a command names its target", field="target", allowed=declared)
    allow(posted.kind, posted.name, posted.target, rules)
    _check(command)
    return Signal(
        id=posted.id,
        producer=rules.producer.name,
        kind=posted.kind,
        name=posted.name,
        target=posted.target,
        time_us=in_time(time_us(posted.time), rules),
        command=command,
    )


def _check(command: Command) -> None:
    _check_text(command.actor, "command.actor", MAX_ID)
    if isinstance(command, Quarantine):
        _check_text(command.name, "command.name", MAX_ID)
        _check_text(command.reason, "command.reason", MAX_REASON)
        return
    if isinstance(command, Erase):
        _check_erasure(command)
        return
    offsets, where = command.offsets, command.where
    if not (where is not None or offsets) or len(offsets) > MAX_OFFSETS:
        raise Rejected(
            f"{len(offsets)} offsets in one command",
            field="command.offsets",
            value=len(offsets),
            allowed=f"1..{MAX_OFFSETS}, or a selection",
        )
    for offset in offsets:
        if not 1 <= offset <= MAX_OFFSET:
            raise Rejected("no offset", field="command.offsets", value=offset, allowed="1..2^63-1")
    if where is not None:
        _check_selection(where)


def _check_erasure(command: Erase) -> None:
    if not 1 <= len(command.ids) <= MAX_ERASED_IDS:
        raise Rejected(
            f"{len(command.ids)} ids in one command",
            field="command.ids",
            value=len(command.ids),
            allowed=f"1..{MAX_ERASED_IDS}",
        )
    for id_ in command.ids:
        check_id(id_, "command.ids")


def _check_selection(where: LetterSelection) -> None:
    for field in ("reason", "producer", "target"):
        text = getattr(where, field)
        if text is not None:
            _check_text(text, f"command.where.{field}", MAX_ID)
    if not 0 <= where.after <= MAX_OFFSET:
        raise Rejected(
            "no offset", field="command.where.after", value=where.after, allowed="0..2^63-1"
        )
    if not 1 <= where.limit <= MAX_LETTERS:
        raise Rejected(
            "no limit", field="command.where.limit", value=where.limit, allowed=f"1..{MAX_LETTERS}"
        )


def _check_text(text: str, field: str, longest: int) -> None:
    if not text.strip() or len(text) > longest or not text.isprintable():
        raise Rejected("not usable", field=field, allowed=f"1..{longest} printable characters")
