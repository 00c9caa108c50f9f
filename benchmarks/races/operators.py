"""Fifty people who all want something else of the same few policies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any, Final

import httpx
import msgspec
from msgspec import Struct

from benchmarks.races.acts import View, Wish, wish
from benchmarks.races.books import Act, Books, Kind, Outcome

THINKS_S: Final = (0.0, 0.06)
AWAY_S: Final = 0.15
"""With nobody to talk to he waits so long before he tries something else, or the same again."""
TRIES: Final = 30
STOPS: Final[tuple[Kind, ...]] = ("hold", "kill")
"""Not tried again: they do not wait for their Idempotency-Key to be stored, and say so."""
UNDER_WAY: Final = "still running"
NOT_KNOWN: Final = "its outcome is not known"


class Person(Struct, frozen=True, kw_only=True):
    """Who acts: the principal's id and a connection with his key."""

    id: str
    http: httpx.Client


class Operator(threading.Thread):
    """One of them. Everything he does is in the books.

    Every second act carries an Idempotency-Key, and is tried again until it is answered.
    """

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
                act = self._done(wanted, again=acts % 2 == 0 and wanted.kind not in STOPS)
                self._books.note(act)
                if act.outcome in ("unsent", "unknown"):
                    self._ended.wait(AWAY_S)
        except Exception as error:
            self._books.fault(f"{self.name} stopped: {error!r}")
            raise

    def end(self) -> None:
        """No further act."""
        self._ended.set()

    def _done(self, wanted: Wish, *, again: bool) -> Act:
        if not again:
            return attempt(self._person, wanted)
        pause, tries = threading.Event(), 0
        while True:
            tries += 1
            act = msgspec.structs.replace(attempt(self._person, wanted, once=True), tries=tries)
            final = act.outcome in ("accepted", "refused") or NOT_KNOWN in act.detail
            if final or (act.outcome == "unsent" and tries == 1):
                return act
            if tries == TRIES:
                return msgspec.structs.replace(act, outcome="unknown")
            pause.wait(AWAY_S)


def attempt(person: Person, wanted: Wish, *, once: bool = False) -> Act:
    """Do it, and write down what came of it. ``once``: with the mark as its Idempotency-Key."""

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
        answer = person.http.request(
            wanted.method,
            wanted.path,
            json=wanted.body,
            headers={"Idempotency-Key": wanted.mark} if once else None,
        )
    except httpx.ConnectError as error:
        return act("unsent", detail=repr(error))
    except httpx.HTTPError as error:
        return act("unknown", detail=repr(error))
    status, text = answer.status_code, answer.text[:300]
    if not answer.is_success:
        unsure = status >= 500 or (once and (UNDER_WAY in text or NOT_KNOWN in text))
        return act("unknown" if unsure else "refused", status=status, detail=text)
    told = answer.json()
    return act(
        _outcome(wanted, told),
        status=status,
        made=told.get("id"),
        rev=told.get("rev"),
        replayed=answer.headers.get("Idempotent-Replayed") == "true",
    )


def _outcome(wanted: Wish, told: dict[str, Any]) -> Outcome:
    """What a success means."""
    if wanted.kind == "baseline" and told["reason"] != wanted.mark:
        return "refused"  # It is in force already; nothing was declared.
    return "accepted" if told.get("recorded", True) else "unknown"
