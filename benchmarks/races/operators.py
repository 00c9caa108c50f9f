"""Fifty people who all want something else of the same few policies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any, Final

import httpx
from msgspec import Struct

from benchmarks.races.acts import View, Wish, wish
from benchmarks.races.books import Act, Books, Outcome

THINKS_S: Final = (0.0, 0.06)
AWAY_S: Final = 0.15
"""With nobody to talk to he waits so long before he tries something else."""


class Person(Struct, frozen=True, kw_only=True):
    """Who acts: the principal's id and a connection with his key."""

    id: str
    http: httpx.Client


class Operator(threading.Thread):
    """One of them. Everything he does is in the books."""

    def __init__(
        self, number: int, person: Person, look: Callable[[], View], books: Books, rng: Random
    ) -> None:
        super().__init__(name=f"operator-{number}", daemon=True)
        self._number = number
        self._person = person
        self._look = look
        self._books = books
        self._rng = rng
        self._ended = threading.Event()

    def run(self) -> None:
        """Act, until told to end."""
        acts = 0
        try:
            while not self._ended.wait(self._rng.uniform(*THINKS_S)):
                acts += 1
                wanted = wish(self._look(), f"race-{self._number}-{acts}.", self._rng)
                if wanted is None:
                    continue
                act = attempt(self._person, wanted)
                self._books.note(act)
                if act.outcome in ("unsent", "unknown"):
                    self._ended.wait(AWAY_S)
        except Exception as error:
            self._books.fault(f"{self.name} stopped: {error!r}")
            raise

    def end(self) -> None:
        """No further act."""
        self._ended.set()


def attempt(person: Person, wanted: Wish) -> Act:
    """Do it once, and write down what came of it."""

    def act(outcome: Outcome, **told: Any) -> Act:
        return Act(
            who=person.id,
            kind=wanted.kind,
            subject=wanted.subject,
            mark=wanted.mark,
            outcome=outcome,
            **told,
        )

    try:
        answer = person.http.post(wanted.path, json=wanted.body)
    except httpx.ConnectError as error:
        return act("unsent", detail=repr(error))
    except httpx.HTTPError as error:
        return act("unknown", detail=repr(error))
    status = answer.status_code
    if not answer.is_success:
        outcome: Outcome = "unknown" if status >= 500 else "refused"
        return act(outcome, status=status, detail=answer.text[:300])
    told = answer.json()
    return act(
        "accepted" if told.get("recorded", True) else "unknown",
        status=status,
        made=told.get("id"),
        rev=told.get("rev"),
    )
