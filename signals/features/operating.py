"""What operators see of the feature stage and ask of it: letters, commands, quarantines.

A dead letter's id is ``<partition>-<offset>``: where its event stands on the bus, for ever.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from signals.errors import Rejected

MAX_OFFSET: Final = 2**63 - 1

CommandName = Literal["replay", "discard", "quarantine", "release", "erase"]

_LETTER_ID = re.compile(r"(\d{1,6})-(\d{1,19})", re.ASCII).fullmatch


class LetterSeen(Struct, frozen=True, kw_only=True):
    """A dead letter as readers find it. ``attempts``: how often it was replayed in vain;
    ``reason`` and ``detail`` are of the last time. ``body`` is the event as it was on the bus."""

    id: str
    partition: int
    offset: int
    target: str
    producer: str
    event_id: str
    reason: str
    detail: str
    accepted_us: int
    attempts: int
    body: bytes


class CommandOutcome(Struct, frozen=True, kw_only=True):
    """A command that was carried out.

    Letters: ``done`` (they are no dead letters any more), ``failed`` (still are), ``absent`` (there
    is none at that offset) and ``left`` (asked for beyond what one command takes). ``last_offset``:
    the highest that was looked at; where a selection left some, the next command goes on from
    there. ``subject``: the producer that a quarantine is about, and ``reason`` why. Of an erasure,
    ``done`` counts what was anonymised or removed, and the same command again takes what is left.
    """

    offset: int
    id: str
    producer: str
    actor: str
    command: CommandName
    accepted_us: int
    done: int = 0
    failed: int = 0
    absent: int = 0
    left: int = 0
    last_offset: int = 0
    subject: str | None = None
    reason: str | None = None


class Quarantined(Struct, frozen=True, kw_only=True):
    """A producer whose feedback is set aside, in this partition, from ``offset`` on.

    What came before waits, joins and counts as ever; so does what an engine says of itself.
    """

    producer: str
    offset: int
    since_us: int
    actor: str
    reason: str


def letter_id(partition: int, offset: int) -> str:
    """The id of the letter there.

    >>> letter_id(0, 17)
    '0-17'
    """
    return f"{partition}-{offset}"


def letter_place(id_: str) -> tuple[int, int]:
    """Partition and offset of a letter's id. Raises ``Rejected``.

    >>> letter_place("2-17")
    (2, 17)
    """
    match = _LETTER_ID(id_)
    if match is None or int(match[2]) > MAX_OFFSET:
        allowed = "<partition>-<offset>"
        raise Rejected("not the id of a dead letter", field="id", value=id_[:50], allowed=allowed)
    return int(match[1]), int(match[2])
