"""``/v1/policies``: see what was proposed, and say yes, no, back, wait, go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from controller.api import shapes
from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer, Limit
from controller.api.bodies import Approval, Proposal, RevertBody, WithReason
from controller.api.bounds import check_scope, sees
from controller.api.problems import documented
from controller.api.target_views import check_known
from controller.history.times import moment
from controller.store.port import PolicyFilter
from policies.lifecycle import State
from policies.policy import OriginKind, Verdict

router = APIRouter(prefix="/v1/policies", tags=["policies"])

From = Annotated[
    str | None, Query(alias="from", max_length=40, description="proposed since: RFC 3339 or µs")
]
To = Annotated[str | None, Query(max_length=40, description="proposed before: RFC 3339 or µs")]
ACT = documented(404, 409, 422)


def chosen(
    knob: str | None = None,
    scope: Annotated[str | None, Query(description="target, or an intent's name")] = None,
    origin: Annotated[OriginKind | None, Query(description="what proposed it")] = None,
    proposed_by: Annotated[
        str | None, Query(description="a key's id, or e.g. rule:idle, plant:step_curve")
    ] = None,
    verdict: Verdict | None = None,
    from_: From = None,
    to: To = None,
) -> PolicyFilter:
    """Which policies a list is of, beside target and state."""
    return PolicyFilter(
        knob=knob,
        scope=scope,
        origin=origin,
        proposed_by=proposed_by,
        verdict=verdict,
        from_us=None if from_ is None else moment(from_, field="from"),
        to_us=None if to is None else moment(to, field="to"),
    )


@router.get("", responses=documented(404, 422))
def listed(
    services: Wired,
    caller: Caller,
    wanted: Annotated[PolicyFilter, Depends(chosen)],
    target: str | None = None,
    state: Annotated[list[State] | None, Query()] = None,
    before: str | None = None,
    limit: Limit = 100,
) -> Response:
    """Newest first; ``next`` is the ``before`` of the following page."""
    with services.store.read() as tx:
        found = tx.policies(
            target=target,
            states=state,
            limit=limit,
            before=before,
            wanted=wanted,
        )
    if before is None:
        check_known(services, target, found)
    cursor = found[-1].id if found else None
    shown = [shapes.policy(one) for one in found if sees(caller, one.scope)]
    return Answer({"items": shown, "next": cursor if len(found) == limit else None})


@router.post("", status_code=201, responses=documented(404, 409, 422))
def proposed(proposal: Proposal, services: Wired, caller: Caller) -> Response:
    """Propose a change by hand. Somebody else approves it; 409 names the guardrail that denies it.

    What lowers risk may be approved by the proposer himself. How many sessions or requests its
    ``guards`` and ``primary`` need is in ``sized``, as soon as the loop has looked.
    """
    check_target(caller, proposal.target)
    check_scope(caller, proposal.scope)
    made = services.operations.propose_wanted(proposal.wanted(), by=caller)
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
    """Approve exactly what was shown; the proposer may only where the change lowers risk.

    High risk needs two people: after the first the policy stays pending, and ``needs`` says whom.
    """
    moved = services.operations.approve(policy_id, body.shown_digest, by=caller)
    return Answer(shapes.policy(moved))


@router.post("/{policy_id}/reject", responses=ACT)
def reject(policy_id: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Say no to a proposal."""
    return Answer(shapes.policy(services.operations.reject(policy_id, body.reason, by=caller)))


@router.post("/{policy_id}/revert", responses=ACT)
def revert(policy_id: str, body: RevertBody, services: Wired, caller: Caller) -> Response:
    """Take it back; it is reverted once the engine was seen without it.

    409 names the newer layer on the same place, unless ``with_newer`` takes that back too.
    """
    moved = services.operations.revert(
        policy_id, body.reason, by=caller, with_newer=body.with_newer
    )
    return Answer(shapes.policy(moved))


@router.post("/{policy_id}/pause", responses=ACT)
def pause(policy_id: str, body: WithReason, services: Wired, caller: Caller) -> Response:
    """Stop a trial's clock; the engine goes back to the baseline meanwhile."""
    return Answer(shapes.policy(services.operations.pause(policy_id, body.reason, by=caller)))


@router.post("/{policy_id}/resume", responses=ACT)
def resume(policy_id: str, services: Wired, caller: Caller) -> Response:
    """Go on with a paused trial, in a fresh unit."""
    return Answer(shapes.policy(services.operations.resume(policy_id, by=caller)))
