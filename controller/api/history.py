"""``/v1/history`` and its kin: who did what, a target's timeline, what differs, the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from controller.api.access import Caller, Wired
from controller.api.answers import NDJSON, Answer, Limit, page
from controller.api.bounds import check_sees_all
from controller.api.past_views import AHEAD_US, read_backs
from controller.api.ports import Services
from controller.api.problems import documented
from controller.api.target_views import declared
from controller.history.changes import settings_diff
from controller.history.report import ControlReport, Scope, control_report
from controller.history.sheets import sheet
from controller.history.telling import Acted, Kind, acted
from controller.history.timeline import Cursor, timeline
from controller.history.times import OR_AGO, moment, rfc3339
from controller.store.port import AuditQuery
from signals.errors import Rejected
from signals.events import MICROS

router = APIRouter(prefix="/v1", tags=["history"])

CSV: Final = "text/csv"
MONTH_US: Final = 30 * 86_400 * MICROS
AT_ONCE: Final = 1000

Begins = Annotated[str, Query(alias="from", description=OR_AGO, max_length=40)]
Ends = Annotated[str, Query(description=OR_AGO, max_length=40)]
From = Annotated[str | None, Query(alias="from", description=OR_AGO, max_length=40)]
To = Annotated[str | None, Query(description=f"{OR_AGO}; exclusive", max_length=40)]
Accept = Annotated[str | None, Header(description="text/csv, application/x-ndjson or JSON")]

HEAD: Final = (
    "index",
    "time",
    "at_us",
    "actor",
    "action",
    "subject",
    "target",
    "words",
    "leaf_hash",
)
REPORT_HEAD: Final = ("section", "target", "from", "until", "who", "subject", "words", "entry")

FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {NDJSON: {}, CSV: {}},
        "description": "a page as JSON; every entry as lines or CSV, when asked for in Accept",
    }
}


class Asked(BaseModel):
    """Which acts."""

    target: str | None = None
    actor: str | None = Field(default=None, description="a key's id, loop, or break-glass:NAME")
    action: str | None = Field(default=None, description="or a family, with its dot: policy.")
    subject: str | None = None
    from_: str | None = Field(default=None, alias="from", description=OR_AGO, max_length=40)
    to: str | None = Field(default=None, description=f"{OR_AGO}; exclusive", max_length=40)
    before: int | None = Field(default=None, ge=0, le=2**53, description="a page's `next`")
    limit: int = Field(default=100, ge=1, le=1000, description="rows at most")

    def query(self, now_us: int) -> AuditQuery:
        """Raises ``Rejected`` for what is no time."""
        from_us, to_us = (
            None if text is None else moment(text, field=name, now_us=now_us)
            for text, name in ((self.from_, "from"), (self.to, "to"))
        )
        _check_order(from_us, to_us)
        return AuditQuery(
            target=self.target,
            actor=self.actor,
            action=self.action,
            subject=self.subject,
            from_us=from_us,
            to_us=to_us,
            before=self.before,
            limit=self.limit,
        )


@router.get("/targets/{target}/settings/diff", responses=documented(404, 422))
def diff(target: str, services: Wired, from_: Begins, to: Ends = "now") -> Response:
    """Two times beside each other: what differs on each replica, and through what.

    ``changes.answer`` says whether any setting changed in between: yes, no, or unknown.
    """
    declared(services, target)
    from_us, to_us = _span(services, from_, to)
    read = read_backs(services, target)
    with services.store.read() as tx:
        return Answer(settings_diff(tx, target, from_us, to_us, read=read))


@router.get("/targets/{target}/timeline", responses=documented(404, 422))
def happened(
    target: str,
    services: Wired,
    from_: From = None,
    to: To = None,
    kind: Annotated[list[Kind] | None, Query()] = None,
    before: Annotated[str | None, Query(max_length=40)] = None,
    limit: Limit = 100,
) -> Response:
    """What happened to a target, latest first; ``next`` is the ``before`` of the following page.

    Settings are told by the engines' own clocks, everything else by the time of its record.
    """
    declared(services, target)
    from_us, to_us = _moment(services, from_, "from"), _moment(services, to, "to")
    _check_order(from_us, to_us)
    with services.store.read() as tx:
        found = timeline(
            tx,
            target,
            from_us=from_us or 0,
            to_us=to_us,
            kinds=kind or (),
            before=None if before is None else Cursor.parse(before),
            limit=limit,
        )
    cursor = str(Cursor(found[-1].at_us, found[-1].entry)) if found else None
    return Answer(page(found, limit, cursor))


@router.get("/history", responses={**FORMS, **documented(422)})
def acts(
    asked: Annotated[Asked, Query()], services: Wired, caller: Caller, accept: Accept = None
) -> Response:
    """Who did what, newest first; ``next`` is the ``before`` of the following page.

    With ``Accept: text/csv`` or ``application/x-ndjson`` all of it, page after page, in one answer.
    ``details`` null: the entry's bytes lie in an archive of the audit.
    """
    check_sees_all(caller)
    form, query = asked_for(accept), asked.query(services.clock())
    if form == "json":
        with services.store.read() as tx:
            found = [acted(line) for line in tx.audit_lines(query)]
        return Answer(page(found, query.limit, found[-1].index if found else None))
    every = _every(services, query)
    if form == "csv":
        rows = ([_cell(one, name) for name in HEAD] for one in every)
        return StreamingResponse(sheet(HEAD, rows), media_type=CSV)
    return StreamingResponse((msgspec.json.encode(x) + b"\n" for x in every), media_type=NDJSON)


@router.get("/reports/control", responses={**FORMS, **documented(422)})
def control(
    services: Wired,
    caller: Caller,
    target: str | None = None,
    from_: From = None,
    to: To = None,
    accept: Accept = None,
) -> Response:
    """Where exceptions were used: broken glass, approvals alone, what stands too long, refusals.

    Without ``from`` the last 30 days; without ``to`` until now.
    """
    check_sees_all(caller)
    now_us = services.clock()
    to_us = _moment(services, to, "to") or now_us + 1
    from_us = _moment(services, from_, "from") or max(0, to_us - MONTH_US)
    _check_order(from_us, to_us)
    scope = Scope(target=target, from_us=from_us, to_us=to_us, now_us=now_us)
    with services.store.read() as tx:
        report = control_report(tx, scope)
    form = asked_for(accept)
    if form == "json":
        return Answer(report)
    if form == "csv":
        return StreamingResponse(sheet(REPORT_HEAD, _report_rows(report)), media_type=CSV)
    found = (one for rows in report.findings.values() for one in rows)
    return StreamingResponse((msgspec.json.encode(x) + b"\n" for x in found), media_type=NDJSON)


def asked_for(accept: str | None) -> Literal["json", "csv", "lines"]:
    """The first of our forms that ``Accept`` names."""
    for part in (accept or "").split(","):
        form = part.partition(";")[0].strip().lower()
        if form == CSV:
            return "csv"
        if form == NDJSON:
            return "lines"
        if form == "application/json":
            return "json"
    return "json"


def _every(services: Services, query: AuditQuery) -> Iterator[Acted]:
    """All pages, each a snapshot: the audit only grows, and it grows at the other end."""
    query = msgspec.structs.replace(query, limit=AT_ONCE)
    while True:
        with services.store.read() as tx:
            found = tx.audit_lines(query)
        yield from map(acted, found)
        if len(found) < AT_ONCE:
            return
        query = msgspec.structs.replace(query, before=found[-1].index)


def _span(services: Services, from_: str, to: str) -> tuple[int, int]:
    now_us = services.clock()
    from_us, to_us = (
        moment(text, field=name, now_us=now_us) for text, name in ((from_, "from"), (to, "to"))
    )
    _check_order(from_us, to_us)
    latest = now_us + AHEAD_US
    if to_us > latest:
        raise Rejected("that is in the future", field="to", value=to, allowed=f"<= {latest}")
    return from_us, to_us


def _moment(services: Services, text: str | None, name: str) -> int | None:
    return None if text is None else moment(text, field=name, now_us=services.clock())


def _check_order(from_us: int | None, to_us: int | None) -> None:
    """Raise ``Rejected`` for a span that ends before it begins. None: no bound."""
    if from_us is not None and to_us is not None and from_us > to_us:
        raise Rejected(
            "from is after to", field="from", value=rfc3339(from_us), allowed=rfc3339(to_us)
        )


def _cell(one: Acted, name: str) -> object:
    return rfc3339(one.at_us) if name == "time" else getattr(one, name)


def _report_rows(report: ControlReport) -> Iterator[list[object]]:
    for rows in report.findings.values():
        for one in rows:
            until = None if one.until_us is None else rfc3339(one.until_us)
            began = rfc3339(one.at_us)
            yield [
                one.section,
                one.target,
                began,
                until,
                one.who,
                one.subject,
                one.words,
                one.entry,
            ]
