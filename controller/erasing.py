"""Letting go of a person's traces: a command to the feature stages, and what it does not reach.

::

    POST /v1/erasures ─► pseudonym ─► audit: erasure.requested (the pseudonym) ─► bus ─► features

The audit never holds the id, only its pseudonym under keys/privacy.key, so that whoever asks about
the same id again can find it, and nobody else can. The command goes the way of all commands: once,
in order, and again when the bus is folded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from controller.feedback import FeedbackOperations, Given, said
from controller.settings import Settings
from controller.store.port import Principal
from signals.errors import Rejected
from signals.events import MICROS, Command, Erase, ErasedBy
from signals.pseudonyms import Pseudonyms
from signals.rules import ID_RULE, REQUEST_ID_RULE, match_id, target_of_request

REQUESTED: Final = "erasure.requested"


class Whose(Struct, frozen=True, kw_only=True):
    """What is to be let go of: a request, a session or an external id, in a target or in all.

    ``also_plain``: where ids are hashed, also what was stored before they were.
    """

    by: ErasedBy
    id: str
    target: str | None = None
    also_plain: bool = False


class Remains(Struct, frozen=True, kw_only=True):
    """Where the id may still be, and until when (Unix µs) at the latest; None: until more is
    written, for that is bounded in bytes."""

    where: str
    until_us: int | None


class Erasing(Struct, frozen=True, kw_only=True):
    """An erasure that is on the bus. ``pseudonym``: what the audit calls the id."""

    command: Given
    pseudonym: str
    remains: tuple[Remains, ...]


class Erasures:
    """The use case. ``pseudonyms`` are always there: also where ids are stored as they are."""

    def __init__(
        self,
        feedback: FeedbackOperations,
        settings: Settings,
        pseudonyms: Pseudonyms,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._feedback = feedback
        self._settings = settings
        self._pseudonyms = pseudonyms
        self._clock = clock

    def request(self, whose: Whose, reason: str, *, by: Principal) -> Erasing:
        """Have it let go of. Raises ``Rejected``, ``NotFound``, ``Unavailable`` without ingest.

        The same again does no harm, and takes what one command left.
        """
        targets = self._feedback.targets(self._target(whose))
        pseudonym = self._pseudonym(whose)
        command: Command = Erase(actor=by.name, by=whose.by, ids=self._stored_as(whose, pseudonym))
        given = self._feedback.give(
            REQUESTED,
            [(target, command) for target in targets],
            {"by": whose.by, "pseudonym": pseudonym, "reason": said(reason)},
            by=by,
        )
        return Erasing(command=given, pseudonym=pseudonym, remains=tuple(self._remains(whose)))

    def _target(self, whose: Whose) -> str | None:
        """A request's id says which target it was of."""
        if whose.by != "request":
            if match_id(whose.id) is None:
                raise Rejected("the id is not usable", field="id", allowed=ID_RULE)
            return whose.target
        target = target_of_request(whose.id)
        if target is None:
            raise Rejected("not a request id", field="id", allowed=REQUEST_ID_RULE)
        if whose.target not in (None, target):
            raise Rejected("the request id names another target", field="target", allowed=target)
        return target

    def _pseudonym(self, whose: Whose) -> str:
        if whose.by == "session":
            return self._pseudonyms.session(whose.id)
        return self._pseudonyms.external(whose.id)

    def _stored_as(self, whose: Whose, pseudonym: str) -> tuple[str, ...]:
        if whose.by == "request" or not self._settings.privacy.hash_ids:
            return (whose.id,)
        return (pseudonym, whose.id) if whose.also_plain else (pseudonym,)

    def _remains(self, whose: Whose) -> Sequence[Remains]:
        """What no command reaches: logs that are only ever appended to."""
        bus, now_us = self._settings.bus, self._clock()
        kept = "the bus" if bus.kind == "sqlite" else "Kafka, for as long as its topic keeps it"
        until_us = now_us + (bus.retention_s + bus.segment_s) * MICROS
        found = [Remains(where=kept, until_us=until_us if bus.kind == "sqlite" else None)]
        if whose.by == "request" or not self._settings.privacy.hash_ids or whose.also_plain:
            found.append(Remains(where="the engine's trace log", until_us=None))
        return found
