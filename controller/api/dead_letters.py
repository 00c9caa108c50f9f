"""``/v1/dead-letters``: what was accepted and could not be used; fold it again, or drop it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import Field, model_validator

from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer, Limit, given
from controller.api.bodies import Body, Reason
from controller.api.problems import documented
from controller.feedback import MAX_IDS, Choice
from controller.inspection import Place
from controller.store.port import Principal
from signals.features.operating import LetterSeen
from signals.settings import Name

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])

After = Annotated[str, Query(description="a page's `next`: only what comes after it")]
TAKEN = documented(404, 409, 422)


class ChoiceBody(Body):
    """The oldest ``limit`` letters of each target that meet every part given."""

    target: Name | None = None
    producer: str | None = Field(default=None, min_length=1, max_length=200)
    reason: str | None = Field(default=None, min_length=1, max_length=100)
    after: int = Field(default=0, ge=0, le=2**62, description="only above this offset")
    limit: int = Field(default=1000, ge=1, le=1000)


class LettersBody(Body):
    """Letters by their ids, or by what they have in common; ``reason`` is why this is done."""

    ids: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=MAX_IDS)
    where: ChoiceBody | None = None
    reason: Reason

    @model_validator(mode="after")
    def _one_of_the_two(self) -> LettersBody:
        if (self.ids is None) == (self.where is None):
            raise ValueError("give ids, or where, not both")
        return self

    def chosen(self, caller: Principal) -> Choice | tuple[str, ...]:
        """As the rest of the house has it. Raises ``Denied`` for what the key does not cover."""
        if self.where is None:
            return self.ids or ()
        check_target(caller, self.where.target)
        return Choice(**self.where.model_dump())


@router.get("", responses=documented(404, 422))
def listed(
    services: Wired,
    target: str | None = None,
    reason: str | None = None,
    producer: str | None = None,
    after: After = "0",
    limit: Limit = 100,
) -> Response:
    """Signals that were accepted and could not be used, with the reason, as they came in.

    ``counts`` says how many there are by reason, whatever ``reason`` and the page.
    """
    inspection = services.inspection
    found = inspection.dead_letters(
        target=target, reason=reason, producer=producer, after=Place.parse(after), limit=limit
    )
    last = Place(found[-1].offset, found[-1].partition) if len(found) == limit else None
    return Answer(
        {
            "items": [_shown(letter) for letter in found],
            "next": None if last is None else str(last),
            "counts": inspection.letter_counts(target=target, producer=producer),
        }
    )


@router.get("/{letter_id}", responses=documented(404, 422))
def one(letter_id: str, services: Wired, caller: Caller) -> Response:
    """One letter, with the event as it came in."""
    return Answer(_shown(services.feedback.letter(letter_id, by=caller)))


@router.post("/replay", status_code=202, responses=TAKEN)
def replay(body: LettersBody, services: Wired, caller: Caller) -> Response:
    """Fold letters again, as if they came in now: after declaring a metric, say.

    202 with the command's id; ``/v1/commands/{id}`` says what became of it. What one command does
    not take is ``left``; the next goes on ``after`` its ``last_offset``.
    """
    return given(services.feedback.replay(body.chosen(caller), body.reason, by=caller))


@router.post("/discard", status_code=202, responses=TAKEN)
def discard(body: LettersBody, services: Wired, caller: Caller) -> Response:
    """Drop letters for good; nothing brings them back. 202 as for ``replay``."""
    return given(services.feedback.discard(body.chosen(caller), body.reason, by=caller))


def _shown(letter: LetterSeen) -> dict[str, Any]:
    """With the event as text, whatever its bytes are."""
    shown: dict[str, Any] = msgspec.to_builtins(letter)
    return shown | {"body": letter.body.decode("utf-8", "replace")}
