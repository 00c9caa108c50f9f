"""A policy: one bounded, explained, reversible change of one knob of one target."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
from msgspec import Struct

from policies.knobs import TARGET_SCOPE, Risk
from policies.lifecycle import State
from policies.settings import Setting, place, typed

Mode = Literal["observe", "approve", "auto"]
OriginKind = Literal["rule", "plant", "learner", "person"]
Verdict = Literal["IMPROVED", "HARMED", "INCONCLUSIVE", "NO_DATA"]


class Origin(Struct, frozen=True, kw_only=True):
    """Who or what proposed it: a rule's id, the plant model, or a person's principal id."""

    kind: OriginKind
    name: str
    version: str = "1"


class Approval(Struct, frozen=True, kw_only=True):
    """One person's yes, to exactly the digest he was shown.

    ``by`` is a principal's id, ``name`` whose it is: two keys of one name are one person.
    ``solo``: he had proposed it himself, which is allowed where the change lowers risk.
    """

    by: str
    name: str = ""
    role: str = ""
    at_us: int
    shown_digest: str
    solo: bool = False


class Guard(Struct, frozen=True, kw_only=True):
    """A metric the policy may not make worse by ``margin`` or more (in the metric's own unit)."""

    metric: str
    margin: float


class Effect(Struct, frozen=True, kw_only=True):
    """An effect on one metric: estimate with interval, and where it comes from."""

    metric: str
    estimate: float
    low: float
    high: float
    source: str


class Policy(Struct, frozen=True, kw_only=True):
    """The whole record. ``rev`` rises with every move; writers compare and set it.

    ``cause`` says why it is reverting or ended; ``undo_us`` is when reverting began (for the
    stopwatch). ``emergency`` policies act first and expire; others are tried in blocks.
    ``expires_us``: a proposal nobody answers, or an emergency's end. ``review_us``: of a kept one.
    ``risk`` and ``lowers_risk`` are computed, for the reasons in ``risk_why`` (``policies.risk``).
    ``approvals_needed``: how many different people must say yes; 2 where the risk is high.
    ``scope`` is ``target`` or an intent's name. ``begins_us``: an emergency that acts no
    sooner, for its rule is judged by that. ``eases``: the emergency that it is one step back from.
    ``review``: what it would replace was kept on an engine that has changed since.

    ``primary``: what it is tried by instead of the target's utility, and the difference that is to
    be found. ``sized``: a line for each metric of users' feedback, how many exposures it takes.
    ``provisional``: kept, and still to be confirmed by ``confirmed_by`` when those that were
    exposed are old enough, at ``confirm_us``.
    """

    id: str
    target: str
    knob: str
    scope: str = TARGET_SCOPE
    before: Setting
    setting: Setting
    origin: Origin
    reason: str
    evidence: dict[str, float] = {}
    expected: Effect | None = None
    guards: tuple[Guard, ...] = ()
    risk: Risk = "medium"
    risk_why: tuple[str, ...] = ()
    lowers_risk: bool = False
    approvals_needed: int = 1
    approvals: tuple[Approval, ...] = ()
    emergency: bool = False
    mode: Mode
    state: State = "proposed"
    cause: str | None = None
    proposed_by: str
    decided_by: str | None = None
    created_us: int
    updated_us: int
    expires_us: int | None = None
    review_us: int | None = None
    undo_us: int | None = None
    applied_us: int | None = None
    trial: str | None = None
    verdict: Verdict | None = None
    primary: Guard | None = None
    sized: tuple[str, ...] = ()
    provisional: bool = False
    confirmed_by: tuple[str, ...] = ()
    confirm_us: int | None = None
    begins_us: int | None = None
    eases: str | None = None
    review: bool = False
    rev: int = 0

    @property
    def shown_digest(self) -> str:
        """Digest of what an approver is shown; approval names it, so nothing else is approved."""
        at = (self.id, self.target, self.knob, self.scope)
        change = (typed(self.setting), typed(self.before), self.mode, self.emergency)
        risk = (self.risk, self.risk_why, self.lowers_risk, self.approvals_needed)
        why = (typed(self.origin), self.reason, sorted(self.evidence.items()))
        expected = None if self.expected is None else typed(self.expected)
        guards = tuple(typed(guard) for guard in self.guards)
        shown: tuple[object, ...] = (at, change, risk, why, expected, guards)
        if self.primary is not None:
            shown = (*shown, typed(self.primary))
        body = msgspec.json.encode(msgspec.to_builtins(shown), order="sorted")
        return hashlib.sha256(body).hexdigest()[:16]

    @property
    def place(self) -> str:
        """``knob`` or ``knob@intent``."""
        return place(self.knob, self.scope)

    def words(self) -> str:
        """``active_cap 8 → 16``, for lines in tables and reasons."""
        return f"{self.place} {self.before.words()} → {self.setting.words()}"
