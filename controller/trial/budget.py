"""The trials that each scope has begun, noted when one begins and when one is kept.

``trial.budget`` says what is counted: trials of the last 24 h (``per_day``), or the stream of the
loop's own and what was kept of it (``fdr``). A trial counts from its first block on, whatever
becomes of it: one that a person ended, that was paused, or that had no data has taken its chance of
a false keep, or could have been begun again until it hit.

A person's own trial is never refused: he knows why he asks, and answers for it. Under ``per_day``
it counts, for a false keep is one whoever asked. Under ``fdr`` it is no part of the stream, which
neither pays for it nor earns by it, and is judged at ``trial.alpha``: the promised rate is that of
what the loop keeps by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, structs

from controller.config.sections import TrialSettings
from controller.judge.online_fdr import level
from controller.state import Draft
from controller.trials import TrialPlan
from policies.budgets import DAY_US, ScopeTrials, TrialBudget
from policies.policy import OriginKind, Policy

NOTE: Final = "trial_budget"
MAX_BEGUN: Final = 512
"""Trials of one scope remembered; persons may begin more than the loop may within a day."""
MAX_KEPT: Final = 64
"""Kept trials of a stream remembered, the latest. What an older one still pays is next to nothing,
and to leave it out only makes levels smaller."""


class Begun(Struct, frozen=True, kw_only=True):
    """One trial: when it began, who proposed it, at which α."""

    trial: str
    at_us: int
    by: OriginKind
    alpha: float


class Stream(Struct, frozen=True, kw_only=True):
    """The loop's own trials of a scope since ``began_us``, and the id of the latest.

    ``kept``: which were, counted from 1.
    """

    began_us: int
    begun: int = 0
    latest: str = ""
    kept: tuple[int, ...] = ()


class Spent(Struct, frozen=True, kw_only=True):
    """By scope. ``streams`` only under ``fdr``."""

    begun: dict[str, tuple[Begun, ...]] = {}
    streams: dict[str, Stream] = {}


def spent(noted: Mapping[str, str]) -> Spent:
    """What was noted; nothing yet where nothing was."""
    return _decoded(noted.get(NOTE, "{}"))


@lru_cache(maxsize=64)
def _decoded(text: str) -> Spent:
    return msgspec.json.decode(text, type=Spent)


def budget_of(limits: TrialSettings, noted: Mapping[str, str], *, now_us: int) -> TrialBudget:
    """What is allowed and spent now, as guardrails take it."""
    found = spent(noted)
    scopes = {
        scope: ScopeTrials(
            began_us=tuple(one.at_us for one in found.begun.get(scope, ())),
            level=_level(limits, found.streams.get(scope), now_us),
            renews_us=_renews_us(limits, found.streams.get(scope)),
        )
        for scope in sorted({*found.begun, *found.streams})
    }
    return TrialBudget(
        kind=limits.budget,
        per_day=limits.trials_per_day,
        fresh_level=_level(limits, None, now_us),
        least_level=limits.least_alpha,
        scopes=scopes,
    )


def begin(draft: Draft, policy: Policy, plan: TrialPlan) -> TrialPlan:
    """Count a trial that begins. The plan as it is frozen: at the α that the budget leaves it."""
    found, limits, scope = spent(draft.noted), draft.declared.trial, policy.scope
    counted = limits.budget == "fdr" and policy.origin.kind != "person"
    left = _level(limits, found.streams.get(scope), draft.now_us) if counted else plan.alpha
    frozen = structs.replace(plan, alpha=min(plan.alpha, left))
    since_us = draft.now_us - DAY_US
    begun = {
        at: tuple(one for one in every if one.at_us > since_us)[-MAX_BEGUN + 1 :]
        for at, every in found.begun.items()
    }
    new = Begun(trial=plan.id, at_us=draft.now_us, by=policy.origin.kind, alpha=frozen.alpha)
    begun[scope] = (*begun.get(scope, ()), new)
    streams = dict(found.streams)
    if counted:
        old = _current(limits, streams.get(scope), draft.now_us)
        stream = old or Stream(began_us=draft.now_us)
        streams[scope] = structs.replace(stream, begun=stream.begun + 1, latest=plan.id)
    begun = {at: every for at, every in begun.items() if every}
    _note(draft, Spent(begun=begun, streams=streams))
    return frozen


def keep(draft: Draft, policy: Policy) -> None:
    """Count a trial of the loop's own that was kept: the latest that the stream of its scope has.

    One policy of a target is on trial at a time, so that there is no later one.
    """
    found = spent(draft.noted)
    stream = found.streams.get(policy.scope)
    if stream is None or stream.latest != policy.trial or stream.begun in stream.kept:
        return
    kept = (*stream.kept, stream.begun)[-MAX_KEPT:]
    streams = {**found.streams, policy.scope: structs.replace(stream, kept=kept)}
    _note(draft, structs.replace(found, streams=streams))


def _level(limits: TrialSettings, stream: Stream | None, now_us: int) -> float:
    if limits.budget != "fdr":
        return 1.0
    now = _current(limits, stream, now_us) or Stream(began_us=now_us)
    return level(limits.fdr, begun=now.begun, kept=now.kept)


def _current(limits: TrialSettings, stream: Stream | None, now_us: int) -> Stream | None:
    """The stream, unless it is over: the rate is promised for each stream by itself."""
    over = stream is None or now_us >= _renews_us(limits, stream)
    return None if over else stream


def _renews_us(limits: TrialSettings, stream: Stream | None) -> int:
    return 0 if stream is None else stream.began_us + limits.fdr_days * DAY_US


def _note(draft: Draft, found: Spent) -> None:
    draft.noted[NOTE] = msgspec.json.encode(found, order="sorted").decode()
