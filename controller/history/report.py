"""The control report: where people and the loop used the exceptions that the rules allow.

Whoever answers for an engine reads it once a month: who broke the glass, who approved alone, what
stands longer than it should, what was refused, and of which spans nobody can say what was in force.
Each finding names its audit entry, so it can be proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, Decision, Principal, Tx
from policies.overrides import Override
from policies.policy import Policy
from signals.events import MICROS

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
"""Of one kind of record looked at; ``cut`` names the sections that there would be more of."""
DAY_US: Final = 86_400 * MICROS
ENDING_US: Final = DAY_US // 24
LONG_US: Final = DAY_US
EXPIRING_US: Final = 14 * DAY_US
STOPS: Final = ("control.held", "control.killed", "control.detached")
STARTS: Final = "control.released"


class Finding(Struct, frozen=True, kw_only=True):
    """One line. ``entry``: of the audit, where there is one. ``until_us`` None: still so."""

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

    def lines(self, tx: Tx, action: str) -> list[AuditLine]:
        """Entries of an action or family in the span, oldest first."""
        query = AuditQuery(
            target=self.target,
            action=action,
            from_us=self.from_us,
            to_us=self.to_us,
            limit=MOST,
        )
        return tx.audit_lines(query)[::-1]


def control_report(tx: Tx, scope: Scope) -> ControlReport:
    """One transaction's view."""
    found = {section: sorted(FIND[section](tx, scope), key=_by_time) for section in SECTIONS}
    return ControlReport(
        from_us=scope.from_us,
        to_us=scope.to_us,
        target=scope.target,
        findings={section: tuple(rows[:MOST]) for section, rows in found.items()},
        cut=tuple(section for section, rows in found.items() if len(rows) >= MOST),
    )


def _by_time(finding: Finding) -> tuple[int, str]:
    return (finding.at_us, finding.subject)


# -- acts, as the audit has them -----------------------------------------------------------------


def _break_glass(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for line in scope.lines(tx, "control."):
        if line.actor.startswith("break-glass:") or line.action == "control.break_glass":
            yield _of_line("break_glass", line, line.action.partition(".")[2].replace("_", " "))


def _foreign(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for line in scope.lines(tx, "engine.foreign_change"):
        setting = (line.details or {}).get("setting", "")
        yield _of_line("foreign_changes", line, f"{line.subject} = {setting}, by nobody known")


def _unknown(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for line in scope.lines(tx, "settings.unknown"):
        segment = (line.details or {}).get("segment") or {}
        from_us = int(segment.get("from_us", line.at_us))
        lies = tx.segment_at(line.target, line.subject, from_us)
        yield Finding(
            section="unknown_spans",
            target=line.target,
            at_us=from_us,
            until_us=None if lies is None else lies.until_us,
            subject=line.subject,
            words=str(segment.get("cause", "its entry lies in an archive")),
            entry=line.index,
        )


def _stopped(tx: Tx, scope: Scope) -> Iterator[Finding]:
    """Spans of hold, kill and detach that reach into the report's."""
    query = AuditQuery(target=scope.target, action="control.", to_us=scope.to_us, limit=MOST)
    lines = [x for x in tx.audit_lines(query)[::-1] if x.action in (*STOPS, STARTS)]
    open_: dict[str, AuditLine] = {}
    for line in lines:
        began = open_.pop(line.target, None)
        if began is not None and line.at_us >= scope.from_us:
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


def _solo(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for line, policy in _approved(tx, scope):
        alone = [one for one in policy.approvals if one.solo]
        if alone:
            yield _of_policy("solo_approvals", policy, line, ", ".join(one.by for one in alone))


def _four_eyes(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for line, policy in _approved(tx, scope):
        if policy.approvals_needed > 1:
            who = ", ".join(one.by for one in policy.approvals)
            yield _of_policy("four_eyes_approvals", policy, line, who)


def _approved(tx: Tx, scope: Scope) -> Iterator[tuple[AuditLine, Policy]]:
    for line in scope.lines(tx, "policy.approved"):
        yield line, tx.policy(line.subject)


def _overdue(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for policy in tx.policies(target=scope.target, states=("kept",), limit=MOST):
        if policy.review_us is not None and policy.review_us < scope.now_us:
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


def _ending(tx: Tx, scope: Scope) -> Iterator[Finding]:
    """About to end, and those that are over and nobody has ended yet."""
    for one in _active(tx, scope):
        if one.expires_us <= scope.now_us + ENDING_US:
            over = one.expires_us <= scope.now_us
            yield _of_override("overrides_ending", one, "overdue" if over else "ends soon")


def _long(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for one in _active(tx, scope):
        if one.expires_us - one.created_us > LONG_US:
            yield _of_override("overrides_long", one, "longer than a day")


def _active(tx: Tx, scope: Scope) -> list[Override]:
    return tx.overrides(target=scope.target, state="active", limit=MOST)


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


def _denied(tx: Tx, scope: Scope) -> Iterator[Finding]:
    found = tx.decisions(target=scope.target, limit=MOST)
    for one in found:
        if one.denied is not None and scope.from_us <= one.at_us < scope.to_us:
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


def _expiring(tx: Tx, scope: Scope) -> Iterator[Finding]:
    for key in _keys(tx, scope):
        if key.expires_us is not None and key.expires_us <= scope.now_us + EXPIRING_US:
            over = key.expires_us <= scope.now_us
            yield _of_key("keys_expiring", key, "has expired" if over else "expires soon")


def _idle(tx: Tx, scope: Scope) -> Iterator[Finding]:
    """Keys that may act, and did nothing in the span that the audit records."""
    for key in _keys(tx, scope):
        if key.role in ("operator", "approver", "admin"):
            query = AuditQuery(actor=key.id, from_us=scope.from_us, to_us=scope.to_us, limit=1)
            if not tx.audit_lines(query):
                yield _of_key("keys_idle", key, "did nothing that the audit records")


def _keys(tx: Tx, scope: Scope) -> Iterable[Principal]:
    mine, issued = ("*", scope.target), tx.keys()
    return (
        key
        for key in issued
        if key.revoked_us is None
        and (scope.target is None or any(name in mine for name in key.targets))
    )


def _of_key(section: Section, key: Principal, why: str) -> Finding:
    return Finding(
        section=section,
        target=", ".join(key.targets),
        at_us=key.expires_us or 0,
        who=key.name,
        subject=key.id,
        words=f"the key of {key.name} ({key.role}) {why}",
    )


FIND: Final[dict[Section, Any]] = {
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
