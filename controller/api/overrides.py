"""``/v1/overrides``: pin, force, freeze; each with a reason and an end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from controller.api import shapes
from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer, Limit
from controller.api.bodies import OverrideBody, WithReason
from controller.api.bounds import check_scope, sees
from controller.api.problems import documented
from controller.api.target_views import check_known
from policies.overrides import OverrideState

router = APIRouter(prefix="/v1/overrides", tags=["overrides"])


@router.get("", responses=documented(404, 422))
def listed(
    services: Wired,
    caller: Caller,
    target: str | None = None,
    state: Annotated[OverrideState | None, Query(description="active, or ended")] = None,
    before: str | None = None,
    limit: Limit = 100,
) -> Response:
    """Newest first; ``next`` is the ``before`` of the following page."""
    with services.store.read() as tx:
        found = tx.overrides(target=target, state=state, before=before, limit=limit)
    if before is None:
        check_known(services, target, found)
    cursor = found[-1].id if found else None
    shown = [shapes.override(one) for one in found if sees(caller, one.scope)]
    return Answer({"items": shown, "next": cursor if len(found) == limit else None})


@router.post("", status_code=201, responses=documented(404, 409, 422))
def made(body: OverrideBody, services: Wired, caller: Caller) -> Response:
    """Set one. Checked against the engine; of its kind it takes the place of one already there.

    A trial on that place pauses until it ends; a unit that runs elsewhere on the target is void.
    """
    check_target(caller, body.target)
    check_scope(caller, body.scope)
    override = services.operations.override(body.wanted(), by=caller)
    where = {"Location": f"/v1/overrides/{override.id}"}
    return Answer(shapes.override(override), status_code=201, headers=where)


@router.get("/{override_id}", responses=documented(404, 422))
def one(override_id: str, services: Wired) -> Response:
    """One, also when it has ended: who, why, until when, what ended it."""
    with services.store.read() as tx:
        found = tx.override(override_id)
    return Answer(shapes.override(found))


@router.delete("/{override_id}", responses=documented(404, 409, 422))
def released(
    override_id: str, body: Annotated[WithReason, Body()], services: Wired, caller: Caller
) -> Response:
    """Release it before its time; the answer is the override, ended."""
    ended = services.operations.end_override(override_id, body.reason, by=caller)
    return Answer(shapes.override(ended))
