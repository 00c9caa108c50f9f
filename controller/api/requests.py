"""``/v1/requests``: what happened to one request, and why the engine was set as it was then."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from controller.api import shapes
from controller.api.access import Wired
from controller.api.answers import Answer, Limit
from controller.api.problems import documented
from controller.api.target_views import declared
from controller.store.port import Tx
from signals.errors import NotFound
from signals.features.model import RequestRow

router = APIRouter(prefix="/v1/requests", tags=["requests"])


@router.get("", responses=documented(404, 422))
def found(
    target: str,
    services: Wired,
    good: bool | None = None,
    intent: str | None = None,
    limit: Limit = 20,
) -> Response:
    """The latest requests of a target, e.g. bad ones (``good=false``)."""
    declared(services, target)
    rows = services.features.find_requests(target, good=good, intent=intent, limit=limit)
    return Answer({"items": rows})


@router.get("/{request_id}", responses=documented(404, 422))
def why(request_id: str, services: Wired) -> Response:
    """The request, the settings it was served under, the policies that made them, what followed."""
    row = services.features.request(request_id)
    if row is None:
        raise NotFound(f"no request {request_id!r}", field="request_id", value=request_id)
    with services.store.read() as tx:
        policies = [_in_force(tx, policy_id) for policy_id in row.policies]
        trial = _trial(tx, row)
    return Answer(
        {
            "request": row,
            "stamp": _stamp(row),
            "policies": policies,
            "trial": trial,
            "outcomes": services.features.outcomes(request_id),
        }
    )


def _stamp(row: RequestRow) -> dict[str, Any]:
    return {
        "target": row.target,
        "replica": row.replica,
        "incarnation": row.incarnation,
        "version": row.version,
        "digest": row.digest,
    }


def _in_force(tx: Tx, policy_id: str) -> dict[str, Any]:
    """A policy that the stamp names; one that we don't know is shown as such, not left out."""
    try:
        found = tx.policy(policy_id)
    except NotFound:
        return {"id": policy_id, "known": False}
    history = shapes.approvals(tx, policy_id)
    return {**shapes.policy(found), "known": True, "history": history}


def _trial(tx: Tx, row: RequestRow) -> dict[str, Any] | None:
    if not row.trial:
        return None
    line = shapes.trial_line(tx.trial(row.trial))
    return {**line, "block": row.block, "arm": row.arm}
