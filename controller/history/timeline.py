"""All that happened to a target, in one order, the latest first.

Two streams are merged: what the audit says of the target, at the time it was recorded, and what its
replicas had, at the time it began there (their own clocks'; what happened while nobody looked is
recorded later and belongs before). A place in the list is ``<µs>.<entry>``: both are for ever, so
pages neither repeat nor skip, whatever is added meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Final

from msgspec import Struct

from controller.history.settings_then import words
from controller.history.telling import FAMILIES, Kind, kind_of, told
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, Tx
from policies.in_force import Segment
from signals.errors import Rejected

TIES: Final = 16
"""More than asked for: entries of the cursor's own microsecond are read again and left out."""
MOST: Final = 1000
LATEST: Final = 2**62


class Happening(Struct, frozen=True, kw_only=True):
    """One thing. ``entry``: of the audit; ``at_us``: when it happened, as far as it is known."""

    at_us: int
    entry: int
    kind: Kind
    action: str
    actor: str
    subject: str
    words: str


class Cursor(Struct, frozen=True, order=True):
    """A place in the list: just after this one.

    >>> str(Cursor.parse("12.3"))
    '12.3'
    """

    at_us: int = LATEST
    entry: int = LATEST

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises ``Rejected``."""
        at_us, dot, entry = text.partition(".")
        numbers = [at_us, entry]
        if not dot or not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
            raise Rejected(
                f"{text[:50]!r} is no place in a timeline",
                field="before",
                value=text[:50],
                allowed="what a page's `next` says",
            )
        return cls(int(at_us), int(entry))

    def __str__(self) -> str:
        return f"{self.at_us}.{self.entry}"


def timeline(
    tx: Tx,
    target: str,
    *,
    from_us: int = 0,
    to_us: int | None = None,
    kinds: Sequence[Kind] = (),
    before: Cursor | None = None,
    limit: int = 100,
) -> list[Happening]:
    """A page, latest first, of what happened in [from, to)."""
    cursor = Cursor() if before is None else before
    if to_us is not None:
        cursor = min(cursor, Cursor(to_us, -1))
    streams = [_audited(tx, target, cursor, from_us, list(kinds), limit)]
    if not kinds or {"settings", "unknown"} & set(kinds):
        segments = tx.segments_before(
            target,
            before=(cursor.at_us, cursor.entry),
            from_us=from_us,
            known=_only(kinds),
            limit=limit,
        )
        streams.append([_of_segment(one) for one in segments])
    latest = merge(*streams, key=lambda one: (one.at_us, one.entry), reverse=True)
    return list(islice(latest, limit))


def _only(kinds: Sequence[Kind]) -> bool | None:
    """Whether segments are wanted that are known, or those that are not; None: both."""
    wanted = {"settings", "unknown"} & set(kinds)
    return "settings" in wanted if len(wanted) == 1 else None


def _audited(
    tx: Tx, target: str, cursor: Cursor, from_us: int, kinds: Sequence[Kind], limit: int
) -> list[Happening]:
    """Of the audit without settings; entries of one microsecond are cut at the cursor."""
    families = [FAMILIES[kind] for kind in kinds if kind in FAMILIES and kind != "settings"]
    if kinds and not families and "other" not in kinds:
        return []
    chosen: list[str | None] = [None] if not kinds or "other" in kinds else [*families]
    found = [_family(tx, target, cursor, from_us, family, kinds, limit) for family in chosen]
    latest = merge(*found, key=lambda one: one.entry, reverse=True)
    return list(islice(latest, limit))


def _family(
    tx: Tx,
    target: str,
    cursor: Cursor,
    from_us: int,
    family: str | None,
    kinds: Sequence[Kind],
    limit: int,
) -> list[Happening]:
    found: list[Happening] = []
    below: int | None = None
    at_once = min(limit + TIES, MOST)
    while len(found) < limit:
        page = tx.audit_lines(
            AuditQuery(
                target=target,
                action=family,
                from_us=from_us,
                to_us=None if cursor.at_us >= LATEST else cursor.at_us + 1,
                but=FAMILIES["settings"],
                before=below,
                limit=at_once,
            )
        )
        found += [
            _of_line(line)
            for line in page
            if (line.at_us, line.index) < (cursor.at_us, cursor.entry)
            and (not kinds or kind_of(line.action) in kinds)
        ]
        if len(page) < at_once:
            break
        below = page[-1].index
    return found[:limit]


def _of_line(line: AuditLine) -> Happening:
    return Happening(
        at_us=line.at_us,
        entry=line.index,
        kind=kind_of(line.action),
        action=line.action,
        actor=line.actor,
        subject=line.subject,
        words=told(line),
    )


def _arm(segment: Segment) -> str:
    """The arm that all requests arrived in, or what the candidate's sessions had instead."""
    trial = segment.trial
    if trial is None or trial.split is None:
        return "" if trial is None else str(trial.arm)
    theirs = ", ".join(f"{at} {words(one)}" for at, one in segment.candidate.items())
    return f"{trial.split.share:.0%} of the sessions with {theirs or 'the same'}"


def _of_segment(segment: Segment) -> Happening:
    had = ", ".join(f"{at} {words(one)}" for at, one in segment.settings.items())
    trial = segment.trial
    under = "" if trial is None else f"; trial {trial.id}, block {trial.block}, {_arm(segment)}"
    held = "; held" if segment.hold else ""
    known = f"{had} ({segment.cause}){under}{held}"
    return Happening(
        at_us=segment.from_us,
        entry=segment.entry or 0,
        kind="settings" if segment.known else "unknown",
        action="settings.observed" if segment.known else "settings.unknown",
        actor="loop",
        subject=segment.replica,
        words=f"{segment.replica} {known}"
        if segment.known
        else f"{segment.replica}: {segment.cause}",
    )
