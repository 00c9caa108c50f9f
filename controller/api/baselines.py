"""``/v1/targets/{target}/baseline``: named, versioned, changed only by a person."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller.api import shapes, target_views
from controller.api.access import Caller, Wired
from controller.api.answers import Answer
from controller.api.bodies import BaselineBody
from controller.api.bounds import check_scope
from controller.api.problems import documented
from policies.knobs import TARGET_SCOPE

router = APIRouter(prefix="/v1/targets/{target}/baseline", tags=["baselines"])


@router.get("", responses=documented(404, 422))
def now(target: str, services: Wired) -> Response:
    """The version in force, and every one before it, oldest first."""
    target_views.declared(services, target)
    with services.store.read() as tx:
        versions = [shapes.baseline(one) for one in tx.baselines(target)]
    return Answer({"target": target, "now": versions[-1] if versions else None, "items": versions})


@router.put("", responses=documented(404, 409, 422))
def put(target: str, body: BaselineBody, services: Wired, caller: Caller) -> Response:
    """Put the next version in force: the body is all of it. 409 ``managed_by`` if a file owns it.

    Settings that are in force already are answered as they are. A trial whose own ground changes
    ends undecided; the running unit of any other is void.
    """
    check_scope(caller, TARGET_SCOPE)
    made = services.operations.set_baseline(
        target, body.places(), called=body.name, reason=body.reason, by=caller
    )
    return Answer(shapes.baseline(made))
