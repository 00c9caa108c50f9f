"""``/v1/policies``: see what was proposed, and say yes, no, back, wait, go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from controller.api import shapes
from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer, Limit
from controller.api.bodies import Approval, Proposal, WithReason
from controller.api.bounds import check_scope, sees
from controller.api.problems import documented
from policies.knobs import TARGET_SCOPE
from policies.lifecycle import State

router = APIRouter(prefix="/v1/policies", tags=["policies"])

ACT = documented(404, 409, 422)


@router.get("", responses=documented(422))
def listed(
    services: Wired,
    caller: Caller,
    target: str | None = None,
    state: Annotated[list[State] | None, Query()] = None,
    before: str | None = None,
    limit: Limit = 100,
) -> Response:
    """Newest first; ``next`` is the ``before`` of the following page."""
    with services.store.read() as tx:
        found = tx.policies(target=target, states=state, limit=limit, before=before)
    cursor = found[-1].id if found else None
    shown = [shapes.policy(one) for one in found if sees(caller, one.scope)]
    return Answer({"items": shown, "next": cursor if len(found) == limit else None})


@router.post("", status_code=201, responses=documented(404, 409, 422))
def proposed(proposal: Proposal, services: Wired, caller: Caller) -> Response:
    """Propose a change by hand. Somebody else approves it."""
    check_target(caller, proposal.target)
    check_scope(caller, TARGET_SCOPE)
    made = services.operations.propose(
        proposal.target,
        proposal.knob,
        proposal.setting.setting(),
        proposal.reason,
        by=caller,
    )
    where = {"Location": f"/v1/policies/{made.id}"}
    return Answer(shapes.policy(made), status_code=201, headers=where)


@router.get("/{policy_id}", responses=documented(404, 422))
def one(policy_id: str, services: Wired) -> Response:
    """One policy, with who moved it when."""
    with services.store.read() as tx:
        found = tx.policy(policy_id)
        history = shapes.approvals(tx, policy_id)
    return Answer({**shapes.policy(found), "history": history})


@router.post("/{policy_id}/approve", responses=ACT)
def approve(policy_id: str, body: Approval, services: Wired, caller: Caller) -> Response:
    """Approve exactly what was shown; the proposer may not."""
    moved = services.operations.approve(policy_id, body.shown_digest, by=caller)
    return Answer(shapes.policy(moved))


@router.post("/{policy_id}/reject", responses=ACT)
def reject(policy_id: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Say no to a proposal."""
    return Answer(shapes.policy(services.operations.reject(policy_id, body.reason, by=caller)))


@router.post("/{policy_id}/revert", responses=ACT)
def revert(policy_id: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Take it back; it is reverted once the engine was seen without it."""
    return Answer(shapes.policy(services.operations.revert(policy_id, body.reason, by=caller)))


@router.post("/{policy_id}/pause", responses=ACT)
def pause(policy_id: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Stop a trial's clock; the engine goes back to the baseline meanwhile."""
    return Answer(shapes.policy(services.operations.pause(policy_id, body.reason, by=caller)))


@router.post("/{policy_id}/resume", responses=ACT)
def resume(policy_id: str, services: Wired, caller: Caller) -> Response:
    """Go on with a paused trial, in a fresh unit."""
    return Answer(shapes.policy(services.operations.resume(policy_id, by=caller)))
