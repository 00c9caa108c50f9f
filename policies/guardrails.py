"""Guardrails: bounds on what may become a policy, whatever proposed it. Pure.

==============  ===================================================================================
``knob``        the knob is supported and every value is within its range; a law is well-formed
``ladder``      rules and the plant stay on the ladder; an ordinary rule's setpoint goes at most
                ``ladder_steps`` beyond the values that were in force before, for models and
                people alike extrapolate badly
``duplicate``   something changes; one open policy per target and knob, and an emergency is stopped
                by another emergency only
``cooldown``    a change that was undone or refused is not proposed again for ``cooldown_s``
``pending``     at most ``max_pending`` wait for a person
``rate``        at most ``max_per_hour`` were applied to the target within an hour
==============  ===================================================================================

A person is held to ``knob``, ``duplicate`` and ``pending`` only: the operator knows more.
Emergencies are held to ``knob``, ``duplicate`` and, after a refusal or harm, ``cooldown``: they
must not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from policies import laws
from policies.knobs import KnobSpec
from policies.lifecycle import State
from policies.policy import Policy
from policies.proposal import Proposal
from policies.steps import values_of
from signals.errors import Rejected

OPEN: Final[frozenset[State]] = frozenset(
    {"proposed", "pending", "approved", "applying", "on_trial", "paused", "in_force", "reverting"}
)
UNDONE: Final[frozenset[State]] = frozenset({"reverted", "rejected", "failed", "expired"})
HOUR_US: Final = 3_600_000_000
MICROS: Final = 1_000_000


class Limits(Protocol):
    """The settings that guardrails read."""

    @property
    def ladder_steps(self) -> int:
        """Ladder values beyond those that were in force before."""

    @property
    def cooldown_s(self) -> int:
        """Seconds before the same change may be proposed again."""

    @property
    def max_pending(self) -> int:
        """Policies that may wait for a person."""

    @property
    def max_per_hour(self) -> int:
        """Policies applied to one target within an hour."""


class Denied(Struct, frozen=True, kw_only=True):
    """A proposal that may not become a policy: which guardrail, why, on what figures."""

    proposal: Proposal
    guardrail: str
    words: str
    figures: dict[str, float] = {}


class _Case(Struct, frozen=True, kw_only=True):
    """One proposal before the guardrails. ``policies`` are those of its target."""

    proposal: Proposal
    policies: tuple[Policy, ...]
    specs: Mapping[str, KnobSpec]
    ladders: Mapping[str, tuple[int, ...]]
    now_us: int
    limits: Limits

    @property
    def by_person(self) -> bool:
        """Whether a person proposed it."""
        return self.proposal.origin.kind == "person"

    def deny(self, guardrail: str, words: str, **figures: float) -> Denied:
        """This proposal, denied."""
        return Denied(
            proposal=self.proposal, guardrail=guardrail, words=words, figures=dict(figures)
        )


def admit(
    proposals: Iterable[Proposal],
    policies: Iterable[Policy],
    *,
    specs: Mapping[str, KnobSpec],
    ladders: Mapping[str, tuple[int, ...]],
    now_us: int,
    limits: Limits,
) -> tuple[tuple[Proposal, ...], tuple[Denied, ...]]:
    """Split proposals into admitted and denied, emergencies first, else in the order given.

    ``specs``: knobs as the engine reports them; ``ladders``: the values declared for each.
    ``policies``: those of the same target, the open ones and those that ended within the cooldown
    or were applied within the hour. Of two proposals for one knob the first is admitted.
    """
    known = tuple(policies)
    admitted: list[Proposal] = []
    denied: list[Denied] = []
    for proposal in sorted(proposals, key=lambda p: not p.emergency):
        refusal = _again(proposal, admitted) or refused(
            proposal, known, specs=specs, ladders=ladders, now_us=now_us, limits=limits
        )
        if refusal is None:
            admitted.append(proposal)
        else:
            denied.append(refusal)
    return tuple(admitted), tuple(denied)


def refused(
    proposal: Proposal,
    policies: Iterable[Policy],
    *,
    specs: Mapping[str, KnobSpec],
    ladders: Mapping[str, tuple[int, ...]],
    now_us: int,
    limits: Limits,
) -> Denied | None:
    """The first guardrail that denies this proposal, if any; the order is the table's."""
    case = _Case(
        proposal=proposal,
        policies=tuple(policy for policy in policies if policy.target == proposal.target),
        specs=specs,
        ladders=ladders,
        now_us=now_us,
        limits=limits,
    )
    answers = (check(case) for check in CHECKS)
    return next((answer for answer in answers if answer is not None), None)


def _again(proposal: Proposal, admitted: Sequence[Proposal]) -> Denied | None:
    place = (proposal.target, proposal.knob)
    if all((other.target, other.knob) != place for other in admitted):
        return None
    words = f"{proposal.knob} already has a proposal in this step"
    return Denied(proposal=proposal, guardrail="duplicate", words=words)


def _knob(case: _Case) -> Denied | None:
    knob, setting = case.proposal.knob, case.proposal.setting
    spec = case.specs.get(knob)
    if spec is None:
        known = ", ".join(sorted(case.specs))
        return case.deny("knob", f"the engine has no knob {knob}; it has {known}")
    try:
        for value in values_of(setting):
            spec.check(value, field=knob)
        if setting.law is not None:
            laws.check(setting.law, lambda value, field: spec.check(value, field=field), field=knob)
    except Rejected as error:
        allowed = "" if error.allowed is None else f"; allowed {error.allowed}"
        return case.deny(
            "knob", f"{error.detail}{allowed}", low=float(spec.low), capacity=float(spec.capacity)
        )
    return None


def _ladder(case: _Case) -> Denied | None:
    proposal = case.proposal
    ladder = case.ladders.get(proposal.knob, ())
    if case.by_person or not ladder:
        return None
    before, after = values_of(proposal.before), values_of(proposal.setting)
    off = [value for value in after if value not in ladder and value not in before]
    if off:
        return case.deny("ladder", f"{proposal.knob} {off[0]} is not on the ladder {list(ladder)}")
    if proposal.origin.kind != "rule" or proposal.emergency or proposal.setting.value is None:
        return None
    steps = _steps_beyond(proposal.setting.value, {*before, *_tried(case)}, ladder)
    allowed = case.limits.ladder_steps
    if steps <= allowed:
        return None
    words = f"{proposal.words()}: {steps} ladder values beyond what was in force; allowed {allowed}"
    return case.deny("ladder", words, steps=float(steps), allowed=float(allowed))


def _tried(case: _Case) -> set[int]:
    applied = (
        policy.setting
        for policy in case.policies
        if policy.knob == case.proposal.knob and policy.applied_us is not None
    )
    return {value for setting in applied for value in values_of(setting)}


def _steps_beyond(value: int, tried: set[int], ladder: Sequence[int]) -> int:
    """Ladder values from the nearest tried one outwards to ``value``; 0 between tried ones."""
    if not tried or min(tried) <= value <= max(tried):
        return 0
    if value > max(tried):
        return sum(max(tried) < step <= value for step in ladder)
    return sum(value <= step < min(tried) for step in ladder)


def _duplicate(case: _Case) -> Denied | None:
    if case.proposal.setting == case.proposal.before:
        return case.deny("duplicate", f"{case.proposal.knob} has this setting already")
    for policy in case.policies:
        yields = case.proposal.emergency and not policy.emergency
        if policy.knob == case.proposal.knob and policy.state in OPEN and not yields:
            words = f"{policy.id} ({policy.words()}) is {policy.state} on the same knob"
            return case.deny("duplicate", words)
    return None


def _cooldown(case: _Case) -> Denied | None:
    if case.by_person:
        return None
    for policy in case.policies:
        left_us = policy.updated_us + case.limits.cooldown_s * MICROS - case.now_us
        same = (policy.knob, policy.setting) == (case.proposal.knob, case.proposal.setting)
        if same and left_us > 0 and _undone(policy, case.proposal.emergency):
            left_s = left_us / MICROS
            ended = f"{policy.state} ({policy.verdict})" if policy.verdict else policy.state
            words = f"the same change, {policy.id}, ended {ended}; again in {left_s:.0f} s"
            return case.deny("cooldown", words, left_s=left_s)
    return None


def _undone(policy: Policy, emergency: bool) -> bool:
    """An emergency's release and expiry are its normal end, so they do not hold the next one up."""
    if emergency:
        return policy.state == "rejected" or (policy.state in UNDONE and policy.verdict == "HARMED")
    return policy.state in UNDONE


def _pending(case: _Case) -> Denied | None:
    waiting, allowed = sum(p.state == "pending" for p in case.policies), case.limits.max_pending
    if case.proposal.emergency or waiting < allowed:
        return None
    words = f"{waiting} policies wait for a person already"
    return case.deny("pending", words, pending=float(waiting), allowed=float(allowed))


def _rate(case: _Case) -> Denied | None:
    if case.proposal.emergency or case.by_person:
        return None
    since_us, allowed = case.now_us - HOUR_US, case.limits.max_per_hour
    applied = sum(p.applied_us is not None and p.applied_us > since_us for p in case.policies)
    if applied < allowed:
        return None
    words = f"{applied} policies were applied within the hour"
    return case.deny("rate", words, applied=float(applied), allowed=float(allowed))


CHECKS: Final[tuple[Callable[[_Case], Denied | None], ...]] = (
    _knob,
    _ladder,
    _duplicate,
    _cooldown,
    _pending,
    _rate,
)
