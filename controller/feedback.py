"""What a person may do about feedback: fold dead letters again or drop them, set a producer aside.

The feature stage does it, not serve: it owns the file. So each act is a command on the bus, one
event for each partition it must reach, and is carried out once, in order, again in a replay. ::

    POST /v1/dead-letters/replay ─► audit entry ─► ingest ─► bus ─► feature stage
                     202, its id ◄──────────────────┘ 503: nothing was given

Whether ingest takes anything is asked first. Then comes the audit entry: an act without one must
not exist. When the post fails all the same, a second entry says that it was refused, or that nobody
knows; the feature stage's own record of commands does.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from controller.keys import POSTING, covers
from controller.store.port import Principal, Store
from policies.ids import new_id
from signals.errors import Conflict, NotFound, Rejected, TrimtabError
from signals.events import (
    Command,
    DiscardLetters,
    LetterSelection,
    Quarantine,
    ReplayLetters,
    Signal,
)
from signals.features.operating import LetterSeen, Quarantined
from signals.features.producers import ProducerReport

PREFIX = "cmd"
PRODUCER = "serve"
REFUSED = "command.refused"
UNCONFIRMED = "command.unconfirmed"
ACTIONS = {
    "command.replay": "replay",
    "command.discard": "discard",
    "command.quarantine": "quarantine",
    "command.release": "release",
    "erasure.requested": "erase",
}
"""What the audit calls giving a command, and the command."""
MAX_REASON = 1_000
MAX_IDS = 1_000
"""Letters that one command may name one by one."""


class Commands(Protocol):
    """The way of commands to the bus."""

    def check(self) -> None:
        """Raise ``Unavailable`` when a command given now could not be taken."""

    def post(self, commands: Sequence[Signal]) -> None:
        """Return when all are durable. Raises ``Unavailable`` (some or none), ``Rejected``."""


class Feedback(Protocol):
    """What the feature stage shows. Raises ``Unavailable``."""

    def letter(self, id_: str) -> LetterSeen | None:
        """One letter by its id; None: there is no such letter. Raises ``Rejected``."""

    def producers(self) -> Mapping[str, ProducerReport]:
        """Those that have posted, by name."""

    def quarantined(self) -> Mapping[str, Quarantined]:
        """Those whose feedback is set aside, by name."""


class Choice(Struct, frozen=True, kw_only=True):
    """Which dead letters are meant: the oldest ``limit`` of each target that meet every part.

    ``after``: only those above this offset, for who goes on where a command before left off.
    """

    target: str | None = None
    producer: str | None = None
    reason: str | None = None
    after: int = 0
    limit: int = 1000


class Given(Struct, frozen=True, kw_only=True):
    """A command that is on the bus, and where: one event for each of ``events``."""

    id: str
    command: str
    events: tuple[str, ...]
    targets: tuple[str, ...]


class FeedbackOperations:
    """The use cases. ``targets``: those declared; ``clock`` answers Unix µs."""

    def __init__(
        self,
        store: Store,
        commands: Commands,
        feedback: Feedback,
        targets: Sequence[str],
        *,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._commands = commands
        self._feedback = feedback
        self._targets = tuple(targets)
        self._clock = clock

    def replay(self, chosen: Choice | Sequence[str], reason: str, *, by: Principal) -> Given:
        """Fold letters again, as if they had come in now; one that fails again is one again."""
        details = {"reason": said(reason)}
        wanted = [
            (target, ReplayLetters(actor=by.name, offsets=offsets, where=where))
            for target, offsets, where in self._chosen(chosen, by)
        ]
        return self.give("command.replay", wanted, details, by=by)

    def discard(self, chosen: Choice | Sequence[str], reason: str, *, by: Principal) -> Given:
        """Drop letters for good; their events stay on the bus until its retention takes them."""
        details = {"reason": said(reason)}
        wanted = [
            (target, DiscardLetters(actor=by.name, offsets=offsets, where=where))
            for target, offsets, where in self._chosen(chosen, by)
        ]
        return self.give("command.discard", wanted, details, by=by)

    def quarantine(self, producer: str, reason: str, *, by: Principal) -> Given:
        """Set aside what a producer posts from now on, everywhere, as dead letters."""
        return self._set_aside(producer, True, reason, by)

    def release(self, producer: str, reason: str, *, by: Principal) -> Given:
        """Take a producer's events again; what was set aside waits to be replayed."""
        return self._set_aside(producer, False, reason, by)

    def letter(self, id_: str, *, by: Principal) -> LetterSeen:
        """One letter. Raises ``NotFound`` where there is none, or none that the key covers."""
        letter = self._feedback.letter(id_)
        if letter is None or not covers(by.targets, letter.target):
            raise NotFound(f"no dead letter {id_}", field="ids", value=id_)
        return letter

    def _set_aside(self, producer: str, on: bool, reason: str, by: Principal) -> Given:
        if producer == PRODUCER:
            raise Rejected(
                "the control plane does not set itself aside", field="producer", value=producer
            )
        self._check_producer(producer, on)
        command = Quarantine(actor=by.name, name=producer, on=on, reason=said(reason))
        wanted = [(target, command) for target in self._targets]
        details = {"reason": command.reason, "producer": producer}
        verb = "quarantine" if on else "release"
        return self.give(f"command.{verb}", wanted, details, by=by)

    def _check_producer(self, producer: str, on: bool) -> None:
        """Raise ``NotFound`` for a name that nobody has, ``Conflict`` when it is so already."""
        with self._store.read() as tx:
            keys = tx.keys()
        known = {key.name for key in keys if key.role in POSTING} | {*self._feedback.producers()}
        if producer not in known:
            raise NotFound(
                f"no producer {producer!r}",
                field="producer",
                value=producer,
                allowed=get_close_matches(producer, known) or sorted(known)[:20],
            )
        if (producer in self._feedback.quarantined()) == on:
            state = "already set aside" if on else "not set aside"
            raise Conflict(f"{producer} is {state}", field="producer", value=producer)

    def _chosen(
        self, chosen: Choice | Sequence[str], by: Principal
    ) -> Iterator[tuple[str, tuple[int, ...], LetterSelection | None]]:
        """For each target: the letters' offsets, or what they have in common."""
        if isinstance(chosen, Choice):
            for target in self.targets(chosen.target):
                yield (
                    target,
                    (),
                    LetterSelection(
                        reason=chosen.reason,
                        producer=chosen.producer,
                        target=target,
                        after=chosen.after,
                        limit=chosen.limit,
                    ),
                )
            return
        by_target: defaultdict[str, list[int]] = defaultdict(list)
        for letter in self._there(chosen, by):
            by_target[letter.target].append(letter.offset)
        for target, offsets in sorted(by_target.items()):
            yield target, tuple(offsets), None

    def targets(self, target: str | None = None) -> Sequence[str]:
        """That one, or all. Raises ``NotFound``."""
        if target is None:
            return self._targets
        if target not in self._targets:
            raise NotFound(
                f"no target {target!r}", field="target", value=target, allowed=list(self._targets)
            )
        return (target,)

    def _there(self, named: Sequence[str], by: Principal) -> Iterator[LetterSeen]:
        """Those named, each once. Raises ``NotFound`` for one that is not there, or not his."""
        if not 1 <= len(named) <= MAX_IDS:
            raise Rejected(
                f"name 1 to {MAX_IDS} letters, or select them",
                field="ids",
                value=len(named),
                allowed=f"1..{MAX_IDS}",
            )
        for id_ in sorted(set(named)):
            yield self.letter(id_, by=by)

    def give(
        self,
        action: str,
        wanted: Sequence[tuple[str, Command]],
        details: Mapping[str, Any],
        *,
        by: Principal,
    ) -> Given:
        """Record, then post: a command for each target. ``action``: one of ``ACTIONS``.

        Raises ``Unavailable`` and ``Rejected``.
        """
        self._commands.check()
        now_us = self._clock()
        given = new_id(PREFIX, now_us, os.urandom(8))
        events = [
            Signal(
                id=f"{given}.{index}",
                producer=PRODUCER,
                kind="command",
                name=str(type(command).__struct_config__.tag),
                target=target,
                time_us=now_us,
                command=command,
            )
            for index, (target, command) in enumerate(wanted)
        ]
        self._record(action, given, events, details, by)
        try:
            self._commands.post(events)
        except TrimtabError as error:
            what = REFUSED if isinstance(error, Rejected) else UNCONFIRMED
            self._record(what, given, events, {"why": str(error)}, by)
            raise
        return Given(
            id=given,
            command=ACTIONS[action],
            events=tuple(event.id for event in events),
            targets=tuple(event.target for event in events),
        )

    def _record(
        self,
        action: str,
        given: str,
        events: Iterable[Signal],
        details: Mapping[str, Any],
        by: Principal,
    ) -> None:
        """One entry for each event, all in one transaction."""
        with self._store.write() as tx:
            for event in events:
                tx.append_audit(
                    at_us=event.time_us,
                    actor=by.id,
                    action=action,
                    subject=given,
                    target=event.target,
                    details={"event": event.id, **details, **_which(event.command)},
                )


def said(reason: str) -> str:
    """The reason in one line. Raises ``Rejected`` without one."""
    told = " ".join(reason.split())
    if not told or len(told) > MAX_REASON or not told.isprintable():
        raise Rejected(
            "a reason is required", field="reason", allowed=f"1..{MAX_REASON} printable characters"
        )
    return told


def _which(command: Command | None) -> dict[str, Any]:
    """The letters that a command is about."""
    if not isinstance(command, ReplayLetters | DiscardLetters):
        return {}
    where = None if command.where is None else msgspec.to_builtins(command.where)
    return {"offsets": list(command.offsets), "where": where}
