"""The control report: where people and the loop used the exceptions that the rules allow.

Whoever answers for an engine reads it once a month: who broke the glass, who approved alone, what
stands longer than it should, what was refused, and of which spans nobody can say what was in force.
Each finding names its audit entry, so it can be proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar, get_args

from msgspec import Struct

from controller.keys import ANY
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, Decision, Principal, Tx
from policies.overrides import Override
from policies.policy import Policy
from signals.events import MICROS

Row = TypeVar("Row")
Section = Literal[
    "break_glass",
    "solo_approvals",
    "four_eyes_approvals",
    "overdue_reviews",
    "overrides_ending",
    "overrides_long",
    "denied",
    "unknown_spans",
    "stopped",
    "foreign_changes",
    "keys_expiring",
    "keys_idle",
]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

MOST: Final = 1000
"""Records of one kind that are looked at; ``cut`` names the sections that there may be more of."""
DAY_US: Final = 86_400 * MICROS
ENDING_US: Final = DAY_US // 24
LONG_US: Final = DAY_US
EXPIRING_US: Final = 14 * DAY_US
STOPS: Final = ("control.held", "control.killed", "control.detached")
STARTS: Final = "control.released"


class Finding(Struct, frozen=True, kw_only=True):
    """One line. ``entry``: of the audit, where there is one.

    ``until_us`` None: still so at the end of the report's span.
    """

    section: Section
    target: str
    at_us: int
    until_us: int | None = None
    who: str = ""
    subject: str
    words: str
    entry: int | None = None


class ControlReport(Struct, frozen=True, kw_only=True):
    """All findings by section, oldest first in each. ``cut``: sections of which there is more."""

    from_us: int
    to_us: int
    target: str | None
    findings: dict[Section, tuple[Finding, ...]]
    cut: tuple[Section, ...] = ()


class Scope(Struct, frozen=True, kw_only=True):
    """What a report is of. ``now_us``: overdue is as of now, whatever the span."""

    target: str | None
    from_us: int
    to_us: int
    now_us: int


class Look:
    """Reads for one section. ``full``: some read gave as much as it may, so there may be more."""

    def __init__(self, tx: Tx, scope: Scope) -> None:
        self.tx = tx
        self.scope = scope
        self.full = False

    def lines(self, action: str, *, since: bool = True) -> list[AuditLine]:
        """Entries of an action or family in the span, or (not ``since``) until its end; in order.

        Of too many the newest.
        """
        query = AuditQuery(
            target=self.scope.target,
            action=action,
            from_us=self.scope.from_us if since else None,
            to_us=self.scope.to_us,
            limit=MOST,
        )
        return self._all(self.tx.audit_lines(query))[::-1]

    def approved(self) -> Iterator[tuple[AuditLine, Policy]]:
        """Policies that were approved in the span."""
        for line in self.lines("policy.approved"):
            yield line, self.tx.policy(line.subject)

    def kept(self) -> list[Policy]:
        """Policies that are kept now."""
        return self._all(self.tx.policies(target=self.scope.target, states=("kept",), limit=MOST))

    def active(self) -> list[Override]:
        """Overrides that are active now."""
        return self._all(self.tx.overrides(target=self.scope.target, state="active", limit=MOST))

    def decisions(self) -> list[Decision]:
        """Made in the span."""
        scope = self.scope
        return self._all(
            self.tx.decisions(
                target=scope.target, from_us=scope.from_us, to_us=scope.to_us, limit=MOST
            )
        )

    def issued(self) -> Iterator[Principal]:
        """Keys that are not revoked and cover the target."""
        mine, every = (ANY, self.scope.target), self.tx.keys()
        for key in every:
            covers = self.scope.target is None or any(name in mine for name in key.targets)
            if key.revoked_us is None and covers:
                yield key

    def idle(self, key: Principal) -> bool:
        """Whether the audit holds nothing that a key did in the span."""
        scope = self.scope
        query = AuditQuery(actor=key.id, from_us=scope.from_us, to_us=scope.to_us, limit=1)
        return not self.tx.audit_lines(query)

    def _all(self, rows: list[Row]) -> list[Row]:
        self.full = self.full or len(rows) == MOST
        return rows


def control_report(tx: Tx, scope: Scope) -> ControlReport:
    """One transaction's view."""
    looks = {section: Look(tx, scope) for section in SECTIONS}
    found = {
        section: tuple(sorted(FIND[section](look), key=_by_time)) for section, look in looks.items()
    }
    return ControlReport(
        from_us=scope.from_us,
        to_us=scope.to_us,
        target=scope.target,
        findings=found,
        cut=tuple(section for section, look in looks.items() if look.full),
    )


def _by_time(finding: Finding) -> tuple[int, str]:
    return (finding.at_us, finding.subject)


# -- acts, as the audit has them -----------------------------------------------------------------


def _break_glass(look: Look) -> Iterator[Finding]:
    for line in look.lines("control."):
        if line.actor.startswith("break-glass:") and line.action != "control.break_glass":
            yield _of_line("break_glass", line, line.action.partition(".")[2].replace("_", " "))


def _foreign(look: Look) -> Iterator[Finding]:
    for line in look.lines("engine.foreign_change"):
        setting = (line.details or {}).get("setting", "")
        yield _of_line("foreign_changes", line, f"{line.subject} = {setting}, by nobody known")


def _unknown(look: Look) -> Iterator[Finding]:
    for line in look.lines("settings.unknown"):
        segment = (line.details or {}).get("segment") or {}
        from_us = int(segment.get("from_us", line.at_us))
        lies = look.tx.segment_at(line.target, line.subject, from_us)
        yield Finding(
            section="unknown_spans",
            target=line.target,
            at_us=from_us,
            until_us=None if lies is None else lies.until_us,
            subject=line.subject,
            words=str(segment.get("cause", "its entry lies in an archive")),
            entry=line.index,
        )


def _stopped(look: Look) -> Iterator[Finding]:
    """Spans of hold, kill and detach that reach into the report's."""
    lines = [x for x in look.lines("control.", since=False) if x.action in (*STOPS, STARTS)]
    open_: dict[str, AuditLine] = {}
    for line in lines:
        began = open_.pop(line.target, None)
        if began is not None and line.at_us >= look.scope.from_us:
            yield _span(began, until_us=line.at_us)
        if line.action in STOPS:
            open_[line.target] = line
    yield from (_span(began, until_us=None) for began in open_.values())


def _span(began: AuditLine, *, until_us: int | None) -> Finding:
    what = began.action.partition(".")[2]
    reason = (began.details or {}).get("reason", "")
    return Finding(
        section="stopped",
        target=began.target,
        at_us=began.at_us,
        until_us=until_us,
        who=began.actor,
        subject=began.target,
        words=f"{what}: {reason}" if reason else what,
        entry=began.index,
    )


def _of_line(section: Section, line: AuditLine, words: str) -> Finding:
    reason = (line.details or {}).get("reason", "")
    return Finding(
        section=section,
        target=line.target,
        at_us=line.at_us,
        until_us=line.at_us,
        who=line.actor,
        subject=line.subject,
        words=f"{words}: {reason}" if reason else words,
        entry=line.index,
    )


# -- approvals -----------------------------------------------------------------------------------


def _solo(look: Look) -> Iterator[Finding]:
    for line, policy in look.approved():
        alone = [one for one in policy.approvals if one.solo]
        if alone:
            yield _of_policy("solo_approvals", policy, line, ", ".join(one.by for one in alone))


def _four_eyes(look: Look) -> Iterator[Finding]:
    for line, policy in look.approved():
        if policy.approvals_needed > 1:
            who = ", ".join(one.by for one in policy.approvals)
            yield _of_policy("four_eyes_approvals", policy, line, who)


def _overdue(look: Look) -> Iterator[Finding]:
    for policy in look.kept():
        if policy.review_us is not None and policy.review_us < look.scope.now_us:
            yield Finding(
                section="overdue_reviews",
                target=policy.target,
                at_us=policy.review_us,
                who=policy.decided_by or policy.proposed_by,
                subject=policy.id,
                words=f"{policy.words()}: kept, and its review is overdue",
            )


def _of_policy(section: Section, policy: Policy, line: AuditLine, who: str) -> Finding:
    return Finding(
        section=section,
        target=policy.target,
        at_us=line.at_us,
        until_us=line.at_us,
        who=who,
        subject=policy.id,
        words=f"{policy.words()} ({policy.risk} risk): {policy.reason}",
        entry=line.index,
    )


# -- overrides, denials, keys --------------------------------------------------------------------


def _ending(look: Look) -> Iterator[Finding]:
    """About to end, and those that are over and nobody has ended yet."""
    for one in look.active():
        if one.expires_us <= look.scope.now_us + ENDING_US:
            over = one.expires_us <= look.scope.now_us
            yield _of_override("overrides_ending", one, "overdue" if over else "ends soon")


def _long(look: Look) -> Iterator[Finding]:
    for one in look.active():
        if one.expires_us - one.created_us > LONG_US:
            yield _of_override("overrides_long", one, "longer than a day")


def _of_override(section: Section, one: Override, why: str) -> Finding:
    return Finding(
        section=section,
        target=one.target,
        at_us=one.created_us,
        until_us=one.expires_us,
        who=one.by,
        subject=one.id,
        words=f"{one.words()}, {why}: {one.reason}",
    )


def _denied(look: Look) -> Iterator[Finding]:
    for one in look.decisions():
        if one.denied is not None:
            yield Finding(
                section="denied",
                target=one.target,
                at_us=one.at_us,
                until_us=one.at_us,
                who=one.source,
                subject=one.id,
                words=_refused(one),
            )


def _refused(one: Decision) -> str:
    figures = ", ".join(f"{name} {value:g}" for name, value in one.figures.items())
    named = one.guardrail or "guardrail"
    return f"{named}: {one.chosen}: {one.denied}{f' ({figures})' if figures else ''}"


def _expiring(look: Look) -> Iterator[Finding]:
    for key in look.issued():
        if key.expires_us is not None and key.expires_us <= look.scope.now_us + EXPIRING_US:
            over = key.expires_us <= look.scope.now_us
            yield _of_key("keys_expiring", key, "has expired" if over else "expires soon")


def _idle(look: Look) -> Iterator[Finding]:
    """Keys that may act, and did nothing in the span that the audit records."""
    for key in look.issued():
        if key.role in ("operator", "approver", "admin"):
            query = AuditQuery(
                actor=key.id, from_us=look.scope.from_us, to_us=look.scope.to_us, limit=1
            )
            if not look.tx.audit_lines(query):
                yield _of_key("keys_idle", key, "did nothing that the audit records")


def _of_key(section: Section, key: Principal, why: str) -> Finding:
    return Finding(
        section=section,
        target=", ".join(key.targets),
        at_us=key.expires_us or 0,
        who=key.name,
        subject=key.id,
        words=f"the key {key.id} of {key.name} ({key.role}) {why}",
    )


FIND: Final[dict[Section, Callable[[Look], Iterator[Finding]]]] = {
    "break_glass": _break_glass,
    "solo_approvals": _solo,
    "four_eyes_approvals": _four_eyes,
    "overdue_reviews": _overdue,
    "overrides_ending": _ending,
    "overrides_long": _long,
    "denied": _denied,
    "unknown_spans": _unknown,
    "stopped": _stopped,
    "foreign_changes": _foreign,
    "keys_expiring": _expiring,
    "keys_idle": _idle,
}
