"""The operators' own books: what each of them did, and what he was told. Nothing of the product's.

An act's ``mark`` is in the words that go with it (its reason), so it is found again in the audit
whoever recorded it. Acts that take no words are told apart by who did them to what.
"""

from __future__ import annotations

import threading
from typing import Final, Literal

from msgspec import Struct

Kind = Literal[
    "propose",
    "approve",
    "reject",
    "revert",
    "pause",
    "resume",
    "hold",
    "kill",
    "release",
    "rollback",
    "override",
    "unset",
    "declare",
    "end",
    "baseline",
]
Outcome = Literal["accepted", "refused", "unsent", "unknown"]
"""``unsent``: no connection came about. ``unknown``: it was sent, and no answer came."""

ACTIONS: Final[dict[Kind, tuple[str, ...]]] = {
    "propose": ("policy.proposed",),
    "approve": ("policy.approved", "policy.seconded"),
    "reject": ("policy.rejected",),
    "revert": ("policy.reverting",),
    "pause": ("policy.paused",),
    "resume": ("policy.on_trial",),
    "hold": ("control.held",),
    "kill": ("control.killed",),
    "release": ("control.released",),
    "rollback": ("control.rollback",),
    "override": ("override.set",),
    "unset": ("override.ended",),
    "declare": ("change.declared",),
    "end": ("change.ended",),
    "baseline": ("baseline.declared",),
}
"""The audit's words for what a person does himself. One act, one of them."""

WORDLESS: Final[frozenset[Kind]] = frozenset({"approve", "resume", "end"})


class Key(Struct, frozen=True, order=True):
    """Who, what, and of what: a mark or a subject."""

    who: str
    kind: Kind
    by: str


class Act(Struct, frozen=True, kw_only=True):
    """One try of one person. ``rev``: of the record that he was shown in the answer.

    ``tries``: the same call with the same Idempotency-Key; ``replayed``: the last one was answered
    as the first had been.
    """

    who: str
    kind: Kind
    subject: str
    mark: str
    outcome: Outcome
    status: int | None = None
    made: str | None = None
    rev: int | None = None
    detail: str = ""
    tries: int = 1
    replayed: bool = False

    @property
    def key(self) -> Key:
        """What it is found again by."""
        by = self.subject if self.kind in WORDLESS else self.mark
        return Key(self.who, self.kind, by)


class Books:
    """Thread-safe. ``answered``: acts that were accepted or refused so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acts: list[Act] = []
        self._faults: list[str] = []
        self.answered = 0

    def note(self, act: Act) -> None:
        """One more."""
        with self._lock:
            self._acts.append(act)
            self.answered += act.outcome in ("accepted", "refused")
            if act.status == 500:
                self._faults.append(f"{act.kind} {act.subject} answered 500: {act.detail}")

    def fault(self, words: str) -> None:
        """What must not be, seen on the way."""
        with self._lock:
            self._faults.append(words)

    @property
    def acts(self) -> list[Act]:
        """All so far."""
        with self._lock:
            return list(self._acts)

    @property
    def faults(self) -> list[str]:
        """All so far."""
        with self._lock:
            return list(self._faults)
