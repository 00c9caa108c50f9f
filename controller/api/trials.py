"""``/v1/trials``: the plan as frozen, the units with their d and E, and the rows they came from."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from controller.api import shapes
from controller.api.access import Caller, Wired
from controller.api.answers import NDJSON, Answer, Limit, lines, page
from controller.api.bounds import sees
from controller.api.problems import documented
from controller.api.target_views import check_known
from controller.keys import ANY

router = APIRouter(prefix="/v1/trials", tags=["trials"])

Block = Annotated[int | None, Query(ge=0, description="one block only")]
ROWS: dict[int | str, dict[str, Any]] = {
    200: {"content": {NDJSON: {}}, "description": "one row a line"}
}


@router.get("", responses=documented(404, 422))
def listed(
    services: Wired,
    caller: Caller,
    target: str | None = None,
    running: bool | None = None,
    limit: Limit = 50,
) -> Response:
    """Newest first."""
    with services.store.read() as tx:
        every = tx.trials(target=target, running=running, limit=limit)
        check_known(services, target, every)
        found = [
            shapes.trial_line(one)
            for one in every
            if ANY in caller.intents or sees(caller, tx.policy(one.plan.policy_id).scope)
        ]
    return Answer(page(found, limit, None))


@router.get("/{trial_id}", responses=documented(404, 422))
def one(trial_id: str, services: Wired) -> Response:
    """Plan, units with d and E, ruling; ``series``: the same as lines to plot."""
    with services.store.read() as tx:
        return Answer(shapes.trial(tx.trial(trial_id)))


@router.get("/{trial_id}/requests", responses={**ROWS, **documented(404, 422)})
def requests(trial_id: str, services: Wired, block: Block = None) -> Response:
    """Every request that arrived under the trial: enough to compute each d again."""
    with services.store.read() as tx:
        tx.trial(trial_id)
    return lines(services.features.trial_requests(trial_id, block=block))


@router.get("/{trial_id}/seconds", responses={**ROWS, **documented(404, 422)})
def seconds(trial_id: str, services: Wired, block: Block = None) -> Response:
    """Every second the engine reported under the trial: token rates and backlog."""
    with services.store.read() as tx:
        tx.trial(trial_id)
    return lines(services.features.trial_seconds(trial_id, block=block))
