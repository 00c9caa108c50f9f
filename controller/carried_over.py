"""What the version before had noted of a target in words of its own, said in this one's.

::

    note last_read:chat      how far the one engine's log was read  -> note last_reads:chat
    table foreign_changes    a stranger's change, by knob           -> an override (``adopted``)

Both are of the target's first replica, whose name stands in neither, so they wait until it is seen.
Without them the first look after an upgrade would begin at the end of the engine's log: a restart
or a stranger's change meanwhile would go unseen, and one that was to be left alone be written over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from controller.state import LOOP, LastRead
from controller.store.port import Foreign, Tx
from policies.overrides import Override

TAKEN: Final = ""
"""In the note that was carried over: notes don't go."""


def left_over(tx: Tx, target: str) -> bool:
    """Whether there is anything to carry over."""
    return bool(tx.note(_noted_before(target))) or bool(tx.foreign(target))


def carry_over(
    tx: Tx, target: str, replica: str, *, now_us: int, new_id: Callable[[], str]
) -> None:
    """Once for all; ``replica``: the target's first. What is over by now is only forgotten."""
    for found in tx.foreign(target):
        if found.until_us > now_us:
            tx.add_override(_adopted(found, replica, new_id(), now_us=now_us))
        tx.clear_foreign(target, found.knob)
    noted = tx.note(_noted_before(target))
    if noted:
        last = msgspec.json.decode(noted, type=LastRead)
        if tx.note(note_of(target)) is None:
            tx.set_note(note_of(target), msgspec.json.encode({replica: last}).decode())
        tx.set_note(_noted_before(target), TAKEN)


def note_of(target: str) -> str:
    """The note of how far each replica's change log was read."""
    return f"last_reads:{target}"


def _noted_before(target: str) -> str:
    return f"last_read:{target}"


def _adopted(found: Foreign, replica: str, override_id: str, *, now_us: int) -> Override:
    return Override(
        id=override_id,
        target=found.target,
        kind="pin",
        knob=found.knob,
        setting=found.setting,
        reason=f"{replica} was changed by somebody else: {found.knob} = {found.setting.words()}"
        f" (change {found.change_id or 'without an id'}), seen before the upgrade",
        by=LOOP,
        created_us=now_us,
        expires_us=found.until_us,
        adopted=replica,
    )
