"""``/v1/changes``: deploys, scalings, incidents; trials of the target stand still meanwhile."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer, Limit, page
from controller.api.bodies import ChangeBody
from controller.api.problems import documented
from controller.api.target_views import check_known
from controller.history.times import moment

router = APIRouter(prefix="/v1/changes", tags=["changes"])

From = Annotated[
    str | None, Query(alias="from", max_length=40, description="going on since: RFC 3339 or µs")
]
To = Annotated[str | None, Query(max_length=40, description="begun before: RFC 3339 or µs")]


@router.get("", responses=documented(404, 422))
def listed(
    services: Wired,
    target: str | None = None,
    from_: From = None,
    to: To = None,
    before: str | None = None,
    limit: Limit = 100,
) -> Response:
    """Those that went on between two times, newest first; ``next`` is the ``before`` of more."""
    from_us = None if from_ is None else moment(from_, field="from")
    to_us = None if to is None else moment(to, field="to")
    with services.store.read() as tx:
        found = tx.declared_changes(
            target=target, from_us=from_us, to_us=to_us, before=before, limit=limit
        )
    if before is None:
        check_known(services, target, found)
    return Answer(page(found, limit, found[-1].id if found else None))


@router.post("", status_code=201, responses=documented(404, 409, 422))
def declared(body: ChangeBody, services: Wired, caller: Caller) -> Response:
    """Say that something else changes a target: a running trial is suspended, none begins.

    It goes on by itself, in a fresh unit, ``guardrails.settle_s`` after the change's end.
    """
    check_target(caller, body.target)
    made = services.operations.declare_change(
        body.target,
        body.kind,
        body.reason,
        by=caller,
        from_us=body.from_us,
        until_us=body.until_us,
        duration_s=body.duration_s,
    )
    where = {"Location": f"/v1/changes/{made.id}"}
    return Answer(made, status_code=201, headers=where)


@router.get("/{change_id}", responses=documented(404, 422))
def one(change_id: str, services: Wired) -> Response:
    """One declared change."""
    with services.store.read() as tx:
        return Answer(tx.declared_change(change_id))


@router.post("/{change_id}/end", responses=documented(404, 409, 422))
def ended(change_id: str, services: Wired, caller: Caller) -> Response:
    """It is over, now; also before the end that was planned."""
    return Answer(services.operations.end_change(change_id, by=caller))
