"""Commands carried out: letters replayed or discarded, producers set aside, erasures. Pure.

A command is folded in a batch of its own, so everything that came before it on the bus is in the
store when it is its turn, and what it does is one transaction with its offset::

    replay ─► each letter ─► its event, as if it came now ─► recorded, joined, waiting, a duplicate
                                    │                          (the letter goes)
                                    └─► fails again: stays, with the new reason, one more attempt
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from signals.codec import Malformed, decode
from signals.events import Command, DiscardLetters, Erase, Quarantine, ReplayLetters
from signals.features.batch import Again, DeadLetter, Event, Summoned, kind_of, sightings
from signals.features.change import Carried, Change, Erasure
from signals.features.letters import Chosen
from signals.features.operating import CommandName, CommandOutcome, Quarantined
from signals.features.recording import Recording
from signals.features.seen import DAY_US, KEPT_DAYS

ORPHAN_EXPIRED = "orphan_expired"
TOO_OLD = "too old to be replayed: its id may have been counted and forgotten"


def summon(event: Event, chosen: Chosen, *, spoilt: Mapping[int, str]) -> Summoned:
    """What the command in ``event`` is about. ``spoilt``: offset -> what folding that letter fails
    with."""
    unread = isinstance(event.signal.command, DiscardLetters)
    return Summoned(
        again=[
            # What is discarded is read only for its id: it may be deadly.
            Again(letter=letter, event=None)
            if unread and not letter.owns_id
            else _again(letter, event.accepted_us, spoilt.get(letter.offset))
            for letter in chosen.letters
        ],
        absent=chosen.absent,
        left=chosen.left,
        last_offset=max((letter.offset for letter in chosen.letters), default=0),
    )


def _again(letter: DeadLetter, accepted_us: int, spoilt: str | None) -> Again:
    try:
        signal = decode(letter.body)
    except Malformed as malformed:
        return Again(letter=letter, event=None, reason="undecodable", detail=malformed.detail)
    if spoilt is not None:
        return Again(letter=letter, event=None, reason="unfoldable", detail=spoilt)
    if signal.kind == "command":
        detail = "a command is given again, not replayed"
        return Again(letter=letter, event=None, reason=letter.reason, detail=detail)
    if signal.time_us // DAY_US < accepted_us // DAY_US - KEPT_DAYS:
        return Again(letter=letter, event=None, reason=letter.reason, detail=TOO_OLD)
    event = Event(
        offset=letter.offset,
        accepted_us=accepted_us,
        signal=signal,
        body=letter.body,
        sightings=() if signal.data is not None else sightings(signal, letter.body),
    )
    return Again(letter=letter, event=event)


class Obedience(Struct, frozen=True):
    """The parts that carrying out a command works with."""

    recording: Recording
    summoned: Summoned

    def take(self, event: Event) -> None:
        """Carry out one command, once."""
        change, command = self.recording.change, event.signal.command
        if command is None:
            change.bury(event, "unfoldable", "a command without content")
            return
        if not self.recording.join.is_new(event):
            return
        match command:
            case ReplayLetters():
                self._replay()
            case DiscardLetters():
                self._discard()
            case Quarantine():
                self._quarantine(event, command)
            case Erase():
                # After all else that this batch writes, so that nothing of it stays behind.
                change.erasure = Erasure(
                    offset=event.offset,
                    target=event.signal.target,
                    by=command.by,
                    ids=command.ids,
                )
        change.carried = Carried(event=event, command=command, summoned=self.summoned)

    def _replay(self) -> None:
        change = self.recording.change
        for each in self.summoned.again:
            letter = each.letter
            change.replaying[letter.offset] = letter
            change.letters_gone.append(letter.offset)
            if each.event is None:
                change.bury_again(letter, each.reason, each.detail)
            elif each.event.signal.data is not None:
                self.recording.record(each.event, each.event.signal.data)
            else:
                self.recording.join.feedback(each.event)

    def _discard(self) -> None:
        change = self.recording.change
        for each in self.summoned.again:
            letter = each.letter
            change.letters_gone.append(letter.offset)
            change.producers[letter.producer].discarded += 1
            if letter.owns_id and each.event is not None:
                change.ids_discarded.extend(identity for identity, _ in each.event.sightings)

    def _quarantine(self, event: Event, command: Quarantine) -> None:
        self.recording.change.quarantine[command.name] = (
            Quarantined(
                producer=command.name,
                offset=event.offset,
                since_us=event.accepted_us,
                actor=command.actor,
                reason=command.reason,
            )
            if command.on
            else None
        )


def conclude(change: Change) -> None:
    """When all is folded: what became of the command that was carried out, if one was, and of the
    letters that it replayed."""
    carried = change.carried
    if carried is None:
        return
    event, command, summoned = carried.event, carried.command, carried.summoned
    now = {letter.offset: letter.reason for letter in change.dead}
    for letter in change.replaying.values():
        counts = change.producers[letter.producer].kind(kind_of(letter))
        counts.replayed += letter.offset not in now
        if letter.reason == ORPHAN_EXPIRED != now.get(letter.offset):
            counts.expired -= 1
    failed = sum(offset in change.replaying for offset in now)
    about = command if isinstance(command, Quarantine) else None
    change.commands.append(
        CommandOutcome(
            offset=event.offset,
            id=event.signal.id,
            producer=event.signal.producer,
            actor=command.actor,
            command=_name(command),
            accepted_us=event.accepted_us,
            done=len(summoned.again) - failed,
            failed=failed,
            absent=summoned.absent,
            left=summoned.left,
            last_offset=summoned.last_offset,
            subject=about.name if about is not None else None,
            reason=about.reason if about is not None else None,
        )
    )


def _name(command: Command) -> CommandName:
    match command:
        case ReplayLetters():
            return "replay"
        case DiscardLetters():
            return "discard"
        case Quarantine():
            return "quarantine" if command.on else "release"
        case Erase():
            return "erase"
