"""Everything that touched one request: the segment that it met, and who made each setting of it.

A request's row is forgotten after a while and its stamp with it. Its id still says when it arrived,
so what was in force then is told from the segments, and that it is told so is said.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from controller.history.makers import Makers
from controller.history.settings_then import ReadBack, ReplicaThen, of_intent, replica_at, shown
from controller.holdback.drawing import is_holdback
from controller.store.port import AuditQuery, Tx
from policies.in_force import Segment
from signals.errors import NotFound
from signals.features.model import RequestRow

TouchedBy = Literal["policy", "override", "baseline", "trial", "other"]
MOST_ENTRIES = 200


class Step(Struct, frozen=True, kw_only=True):
    """One audit entry about something that touched the request; ``index`` can be proved."""

    index: int
    at_us: int
    actor: str
    action: str


class Touch(Struct, frozen=True, kw_only=True):
    """One thing that had a hand in the request: what it is as a whole, and its audit entries.

    ``known`` False: the stamp names it and the store does not know it. ``body``: the record.
    """

    kind: TouchedBy
    id: str
    known: bool
    words: str
    body: dict[str, Any] | None = None
    entries: tuple[Step, ...] = ()


class Met(Struct, frozen=True, kw_only=True):
    """What one request met. ``by``: how that is known: its stamp, or only when it arrived."""

    by: Literal["stamp", "time"]
    at_us: int
    replicas: tuple[ReplicaThen, ...]
    touched: tuple[Touch, ...]


def met_by_stamp(tx: Tx, row: RequestRow, *, read: Mapping[str, ReadBack]) -> Met:
    """By the stamp that its answer carried. Where its version was never read: unknown, and why."""
    makers = Makers(tx, row.target)
    segment = tx.segment_of(row.incarnation, row.version)
    if segment is None or not segment.known:
        then = replica_at(tx, makers, row.target, row.replica, row.arrival_us, read=read)
        if then.known:
            why = f"version {row.version} of incarnation {row.incarnation} was never read back"
            then = msgspec.structs.replace(then, known=False, why=why, places=())
        touched = _named(tx, list(row.policies))
    else:
        segment = segment.met_by(row.arm, row.digest)
        then = shown(segment, makers, row.arrival_us, intent=row.intent)
        touched = _all(tx, makers, segment, row.intent, row.arrival_us, list(row.policies))
    if row.trial:
        touched += _of_trial(tx, row.trial, known={one.id for one in touched})
    return Met(by="stamp", at_us=row.arrival_us, replicas=(then,), touched=tuple(touched))


def met_by_time(tx: Tx, target: str, at_us: int, *, read: Mapping[str, ReadBack]) -> Met:
    """By when it arrived: what each replica had then, for it may have met any of them."""
    makers = Makers(tx, target)
    replicas = tuple(
        replica_at(tx, makers, target, name, at_us, read=read)
        for name in tx.segment_replicas(target)
    )
    touched: dict[str, Touch] = {}
    for name in tx.segment_replicas(target):
        segment = tx.segment_at(target, name, at_us)
        if segment is not None and segment.known:
            for one in _all(tx, makers, segment, None, at_us, []):
                touched.setdefault(one.id, one)
            if segment.trial is not None:
                for one in _of_trial(tx, segment.trial.id, known=set(touched)):
                    touched.setdefault(one.id, one)
    return Met(by="time", at_us=at_us, replicas=replicas, touched=tuple(touched.values()))


def arrival_of(request_id: str) -> tuple[str, int] | None:
    """(target, arrival in µs) that an engine-minted id says; None for any other id.

    >>> arrival_of("chat.018bcfe5-687b-774b-8000-000000000000")
    ('chat', 1700000000123455)
    """
    target, _, minted = request_id.rpartition(".")
    try:
        number = uuid.UUID(minted)
    except ValueError:
        return None
    if not target or number.version != 7 or str(number) != minted:
        return None
    millis, fraction = number.int >> 80, (number.int >> 64) & 0xFFF
    return target, millis * 1000 + fraction * 1000 // 4096


def _all(
    tx: Tx, makers: Makers, segment: Segment, intent: str | None, at_us: int, stamped: list[str]
) -> list[Touch]:
    """What the stamp names, and who else made a setting that the request met."""
    chosen = segment.settings if intent is None else of_intent(segment.settings, intent)
    touched = {one.id: one for one in _named(tx, stamped)}
    for at, now in chosen.items():
        maker = makers.of(segment, at, now, at_us)
        if maker.id is None or maker.id in touched:
            continue
        if maker.kind == "baseline":
            entries = () if maker.entry is None else _entries(tx, _subject(segment, maker.id))
            touched[maker.id] = Touch(
                kind="baseline", id=maker.id, known=True, words=maker.words, entries=entries
            )
        elif maker.kind == "other":
            touched[maker.id] = Touch(kind="other", id=maker.id, known=False, words=maker.words)
        else:
            touched |= {one.id: one for one in _named(tx, [maker.id])}
    return list(touched.values())


def _subject(segment: Segment, baseline: str) -> str:
    return f"{segment.target}@{baseline.rpartition('@')[2]}"


def _named(tx: Tx, ids: list[str]) -> list[Touch]:
    return [_touch(tx, one) for one in dict.fromkeys(ids)]


def _touch(tx: Tx, id_: str) -> Touch:
    entries = _entries(tx, id_)
    if is_holdback(id_):
        words = "the baseline, in a block of the holdback"
        return Touch(kind="baseline", id=id_, known=True, words=words, entries=entries)
    try:
        policy = tx.policy(id_)
        body = {**msgspec.to_builtins(policy), "shown_digest": policy.shown_digest}
        return Touch(
            kind="policy", id=id_, known=True, words=policy.words(), body=body, entries=entries
        )
    except NotFound:
        pass
    try:
        override = tx.override(id_)
        body = msgspec.to_builtins(override)
        return Touch(
            kind="override", id=id_, known=True, words=override.words(), body=body, entries=entries
        )
    except NotFound:
        words = "which this controller does not know"
        return Touch(kind="policy", id=id_, known=False, words=words, entries=entries)


def _of_trial(tx: Tx, trial_id: str, *, known: set[str]) -> list[Touch]:
    """The trial, and the policy on it: also where the request was in the baseline's arm."""
    if is_holdback(trial_id):
        words = "the holdback: what is kept, against the baseline"
        found = Touch(
            kind="trial", id=trial_id, known=True, words=words, entries=_entries(tx, trial_id)
        )
        return [found]
    try:
        trial = tx.trial(trial_id)
    except NotFound:
        words = "a trial which this controller does not know"
        return [Touch(kind="trial", id=trial_id, known=False, words=words)]
    ruling = None if trial.ruling is None else msgspec.to_builtins(trial.ruling)
    found = Touch(
        kind="trial",
        id=trial_id,
        known=True,
        words=trial.plan.hypothesis,
        body={
            "state": trial.state,
            "ruling": ruling,
            "units": len(trial.units),
            "plan": msgspec.to_builtins(trial.plan),
        },
        entries=_entries(tx, trial_id),
    )
    policy_id = trial.plan.policy_id
    return [found] if policy_id in known else [found, _touch(tx, policy_id)]


def _entries(tx: Tx, subject: str) -> tuple[Step, ...]:
    found = tx.audit_lines(AuditQuery(subject=subject, limit=MOST_ENTRIES))
    return tuple(
        Step(index=line.index, at_us=line.at_us, actor=line.actor, action=line.action)
        for line in reversed(found)
    )
