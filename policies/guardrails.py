"""Guardrails: bounds on what may become a policy and when it may begin. One table. Pure.

Whom each one binds is part of the table (``RAILS``; drawn in ``docs/policies.md``). The loop, which
is rules, the plant model and the learner, is held to all of them. A person is held to what the
engine can't do, to the declared bounds, and to what keeps one change from spoiling another: he
knows more than the figures say, and a bold step of his is high risk, so a second person looks at
it. Emergencies must not wait; only what is impossible, what a person has fixed, and what did harm
before stops them. What an engine can do and what is declared may be less when a change begins than
when it was proposed, so both are asked again then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

from msgspec import Struct

from policies import proposal_rails, starting_rails
from policies.guarding import Around, Case, Denied, Finding, Outcome, Who
from policies.limits import Limits
from policies.policy import Policy
from policies.proposal import Proposal
from policies.proposal_rails import OPEN, Answer

__all__ = [
    "OPEN",
    "RAILS",
    "Around",
    "Case",
    "Denied",
    "Finding",
    "admit",
    "as_proposal",
    "findings",
    "may_begin",
    "refused",
]

LimitsOf = Callable[[Proposal], Limits]

ALL: Final[frozenset[Who]] = frozenset({"loop", "person", "emergency"})
PLANNED: Final[frozenset[Who]] = frozenset({"loop", "person"})
LOOP: Final[frozenset[Who]] = frozenset({"loop"})
ACTING: Final[frozenset[Who]] = frozenset({"loop", "emergency"})


class Rail(Struct, frozen=True):
    """One guardrail. ``at`` proposal: it denies. ``at`` start: what it stops waits."""

    name: str
    binds: frozenset[Who]
    check: Callable[[Case], Answer]
    at: Literal["proposal", "start"] = "proposal"


RAILS: Final[tuple[Rail, ...]] = (
    Rail("knob", ALL, proposal_rails.knob),
    Rail("bounds", ALL, proposal_rails.bounds),
    Rail("wall", ALL, proposal_rails.wall),
    Rail("ladder", ACTING, proposal_rails.ladder),
    Rail("step", LOOP, proposal_rails.longest_step),
    Rail("duplicate", ALL, proposal_rails.duplicate),
    Rail("flip", LOOP, proposal_rails.flip),
    Rail("cooldown", ACTING, proposal_rails.cooldown),
    Rail("blacklist", ACTING, proposal_rails.blacklisted),
    Rail("pending", PLANNED, proposal_rails.pending),
    Rail("rate", LOOP, proposal_rails.rate),
    Rail("place_rate", LOOP, proposal_rails.place_rate),
    Rail("dwell", LOOP, proposal_rails.dwell),
    Rail("trial_budget", LOOP, starting_rails.trial_budget),
    Rail("blast", PLANNED, proposal_rails.blast),
    Rail("knob", ALL, proposal_rails.knob, "start"),
    Rail("bounds", ALL, proposal_rails.bounds, "start"),
    Rail("wall", ALL, proposal_rails.wall, "start"),
    Rail("override", ALL, starting_rails.override, "start"),
    Rail("freeze", PLANNED, starting_rails.freeze, "start"),
    Rail("change", PLANNED, starting_rails.change, "start"),
    Rail("drift", PLANNED, starting_rails.drift, "start"),
    Rail("emergency", PLANNED, starting_rails.emergency, "start"),
    Rail("trial", PLANNED, starting_rails.trial, "start"),
    Rail("moving", PLANNED, starting_rails.moving, "start"),
    Rail("trial_budget", LOOP, starting_rails.trial_budget, "start"),
    Rail("holdback", PLANNED, starting_rails.holdback, "start"),
    Rail("rate", LOOP, proposal_rails.rate, "start"),
    Rail("dwell", LOOP, proposal_rails.dwell, "start"),
)


def admit(
    proposals: Iterable[Proposal], around: Around, *, limits: LimitsOf, now_us: int
) -> tuple[tuple[Proposal, ...], tuple[Denied, ...]]:
    """Split proposals into admitted and denied, emergencies first, else in the order given.

    Each is judged as if those admitted before it were policies already.
    """
    admitted: list[Proposal] = []
    denied: list[Denied] = []
    for proposal in sorted(proposals, key=lambda p: not p.emergency):
        case = Case(
            proposal=proposal,
            around=around,
            limits=limits(proposal),
            now_us=now_us,
            beside=tuple(admitted),
        )
        refusal = refused(case)
        if refusal is None:
            admitted.append(proposal)
        else:
            denied.append(refusal)
    return tuple(admitted), tuple(denied)


def refused(case: Case) -> Denied | None:
    """The first guardrail that denies this proposal, if any; the order is the table's."""
    for finding in findings(case, at="proposal"):
        if finding.outcome == "deny":
            return Denied(
                proposal=case.proposal,
                guardrail=finding.guardrail,
                words=finding.words,
                figures=finding.figures,
            )
    return None


def may_begin(policy: Policy, around: Around, *, limits: Limits, now_us: int) -> Finding | None:
    """What an approved policy waits for, if anything."""
    case = Case(
        proposal=as_proposal(policy), around=around, limits=limits, now_us=now_us, own=policy.id
    )
    waits = (one for one in findings(case, at="start") if one.outcome == "wait")
    return next(waits, None)


def findings(case: Case, *, at: Literal["proposal", "start"] | None = None) -> tuple[Finding, ...]:
    """What every guardrail says, in the table's order; without the knob there is nothing to say."""
    found: list[Finding] = []
    for rail in RAILS:
        if at is not None and rail.at != at:
            continue
        finding = _finding(rail, case)
        found.append(finding)
        if rail.name == "knob" and finding.outcome == "deny":
            break
    return tuple(found)


def as_proposal(policy: Policy) -> Proposal:
    """What the policy proposes, as it was before it was one."""
    return Proposal(
        target=policy.target,
        knob=policy.knob,
        scope=policy.scope,
        setting=policy.setting,
        before=policy.before,
        origin=policy.origin,
        reason=policy.reason,
        evidence=policy.evidence,
        expected=policy.expected,
        guards=policy.guards,
        emergency=policy.emergency,
        review=policy.review,
    )


def _finding(rail: Rail, case: Case) -> Finding:
    if case.who not in rail.binds:
        return Finding(guardrail=rail.name, outcome="exempt", at=rail.at)
    words, figures = rail.check(case)
    if not words:
        return Finding(guardrail=rail.name, figures=figures, at=rail.at)
    outcome: Outcome = "deny" if rail.at == "proposal" else "wait"
    return Finding(guardrail=rail.name, outcome=outcome, words=words, figures=figures, at=rail.at)
