"""What changed between two times: each move from one segment to the next, and what nobody can say.

"Was it Trimtab?" has three answers. *Yes*: a setting changed on some replica. *Unknown*: none that
is recorded, but there are spans of which nobody can say. *No*: every replica kept what it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from controller.history.makers import Maker, Makers
from controller.history.settings_then import (
    NOT_READ,
    ReadBack,
    ReplicaThen,
    kept_until,
    replica_at,
    words,
)
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, Tx
from policies.in_force import InForce, Segment
from policies.runtime_config import TrialStamp

Answer = Literal["yes", "no", "unknown"]

MOST_MOVES: Final = 1000
"""Of one replica, in one answer; ``complete`` says whether there were more."""
MOST_ACTS: Final = 200


class Difference(Struct, frozen=True, kw_only=True):
    """One place before and after, in words. None: it had nothing of its own, or nobody can say."""

    place: str
    before: str | None
    after: str | None
    maker: Maker | None = None


class MoveSeen(Struct, frozen=True, kw_only=True):
    """One change of a replica's settings. ``places`` empty: only trial, hold or maker changed.

    ``hidden``: it happened somewhere in a span of which nobody can say more.
    """

    replica: str
    at_us: int
    cause: str
    change_id: str | None
    trial: TrialStamp | None
    entry: int | None
    places: tuple[Difference, ...]
    hidden: bool = False


class UnknownSpan(Struct, frozen=True, kw_only=True):
    """Nobody can say what a replica had from ``from_us`` to ``until_us`` (None: still so)."""

    replica: str
    from_us: int | None
    until_us: int | None
    why: str


class Changes(Struct, frozen=True, kw_only=True):
    """Between two times, oldest first. ``answer``: whether any setting changed."""

    target: str
    from_us: int
    to_us: int
    answer: Answer
    moves: tuple[MoveSeen, ...]
    unknown: tuple[UnknownSpan, ...]
    complete: bool


class ReplicaDiff(Struct, frozen=True, kw_only=True):
    """One replica at both times."""

    replica: str
    before: ReplicaThen
    after: ReplicaThen
    differs: tuple[Difference, ...]


class SettingsDiff(Struct, frozen=True, kw_only=True):
    """Two times beside each other, and what lies between. ``acts``: audit entries, newest first."""

    target: str
    from_us: int
    to_us: int
    same: bool | None
    replicas: tuple[ReplicaDiff, ...]
    changes: Changes
    acts: tuple[AuditLine, ...]


def changes_between(
    tx: Tx, target: str, from_us: int, to_us: int, *, read: Mapping[str, ReadBack]
) -> Changes:
    """Every move in (from, to], and the spans in it of which nobody can say."""
    makers = Makers(tx, target)
    moves: list[MoveSeen] = []
    unknown: list[UnknownSpan] = []
    complete = True
    for name in tx.segment_replicas(target):
        found = tx.segments(
            target, replica=name, from_us=from_us, to_us=to_us + 1, limit=MOST_MOVES
        )
        complete = complete and len(found) < MOST_MOVES
        moves += _moves(found, from_us, makers)
        unknown += _unknown(name, found, from_us, to_us, read.get(name))
    moves.sort(key=lambda one: (one.at_us, one.replica))
    moved = any(one.places for one in moves)
    silent = bool(unknown) or not complete or not tx.segment_replicas(target)
    return Changes(
        target=target,
        from_us=from_us,
        to_us=to_us,
        answer="yes" if moved else "unknown" if silent else "no",
        moves=tuple(moves),
        unknown=tuple(unknown),
        complete=complete,
    )


def settings_diff(
    tx: Tx, target: str, from_us: int, to_us: int, *, read: Mapping[str, ReadBack]
) -> SettingsDiff:
    """Both times of every replica, and through what they came to differ."""
    makers = Makers(tx, target)
    replicas = []
    for name in tx.segment_replicas(target):
        before, after = (
            replica_at(tx, makers, target, name, at_us, read=read) for at_us in (from_us, to_us)
        )
        replicas.append(
            ReplicaDiff(replica=name, before=before, after=after, differs=_differs(before, after))
        )
    known = all(one.before.known and one.after.known for one in replicas) and bool(replicas)
    differ = any(one.differs for one in replicas)
    return SettingsDiff(
        target=target,
        from_us=from_us,
        to_us=to_us,
        same=False if differ else True if known else None,
        replicas=tuple(replicas),
        changes=changes_between(tx, target, from_us, to_us, read=read),
        acts=acts_between(tx, target, from_us, to_us),
    )


def acts_between(tx: Tx, target: str, from_us: int, to_us: int) -> tuple[AuditLine, ...]:
    """What was decided about a target in [from, to], newest first."""
    query = AuditQuery(
        target=target, but="settings.", from_us=from_us, to_us=to_us + 1, limit=MOST_ACTS
    )
    return tuple(tx.audit_lines(query))


def _moves(found: list[Segment], from_us: int, makers: Makers) -> list[MoveSeen]:
    """From each known segment to the next known one; across a hole the move is hidden in it."""
    moves: list[MoveSeen] = []
    last: Segment | None = None
    hidden = False
    for segment in found:
        if not segment.known:
            hidden = True
            continue
        if last is not None and segment.from_us > from_us:
            moves.append(_move(last, segment, makers, hidden=hidden))
        last, hidden = segment, False
    return [one for one in moves if one.places or not one.hidden]


def _move(before: Segment, after: Segment, makers: Makers, *, hidden: bool) -> MoveSeen:
    places = sorted(before.settings.keys() | after.settings.keys())
    pairs = [(at, before.settings.get(at), after.settings.get(at)) for at in places]
    return MoveSeen(
        replica=after.replica,
        at_us=after.from_us,
        cause=after.cause,
        change_id=after.change_id,
        trial=after.trial,
        entry=after.entry,
        hidden=hidden,
        places=tuple(
            Difference(
                place=at,
                before=None if was is None else words(was),
                after=None if now is None else words(now),
                maker=None if now is None else makers.of(after, at, now, after.from_us),
            )
            for at, was, now in pairs
            if not _alike(was, now)
        ),
    )


def _alike(was: InForce | None, now: InForce | None) -> bool:
    """The same setting, whoever made it; where a law stands does not count."""
    if was is None or now is None:
        return was is now
    return was.law == now.law and (now.law is not None or was.value == now.value)


def _unknown(
    replica: str, found: list[Segment], from_us: int, to_us: int, read: ReadBack | None
) -> list[UnknownSpan]:
    spans = [
        UnknownSpan(
            replica=replica,
            from_us=max(from_us, one.from_us),
            until_us=one.until_us,
            why=one.cause,
        )
        for one in found
        if not one.known
    ]
    first_us = found[0].from_us if found else to_us
    if first_us > from_us:
        spans.insert(
            0,
            UnknownSpan(
                replica=replica, from_us=from_us, until_us=first_us, why="nothing was recorded yet"
            ),
        )
    last = found[-1] if found else None
    if last is not None and last.known and last.until_us is None:
        kept_us = kept_until(last, read)
        if kept_us < to_us:
            spans.append(
                UnknownSpan(
                    replica=replica, from_us=max(from_us, kept_us), until_us=None, why=NOT_READ
                )
            )
    return spans


def _differs(before: ReplicaThen, after: ReplicaThen) -> tuple[Difference, ...]:
    """Places that differ between two known answers; nothing where one of them is unknown."""
    if not (before.known and after.known):
        return ()
    was = {one.place: one for one in before.places}
    now = {one.place: one for one in after.places}
    return tuple(
        Difference(
            place=at,
            before=was[at].words if at in was else None,
            after=now[at].words if at in now else None,
            maker=now[at].maker if at in now else None,
        )
        for at in sorted(was.keys() | now.keys())
        if at not in was or at not in now or was[at].words != now[at].words
    )
