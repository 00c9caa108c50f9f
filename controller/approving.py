"""Who may say yes to what. Pure.

An approval is for a digest: the change, where it starts from, reason, evidence, expected effect,
guards, risk. Low and medium risk need one person who did not propose it. High risk needs two
different people, at least one of them an approver or admin. Two keys of one name are one person.
What lowers risk may be approved by its proposer alone; that is marked ``solo``.
"""

from __future__ import annotations

from typing import Final

from controller.store.port import Principal, Role
from policies.policy import Approval, Policy
from signals.errors import Conflict

SENIOR: Final[frozenset[Role]] = frozenset({"approver", "admin"})
"""Roles of which high risk needs at least one."""


def approval_of(policy: Policy, shown_digest: str, by: Principal, *, now_us: int) -> Approval:
    """This person's yes. Raises ``Conflict`` where it does not count.

    ``policy`` is pending; whether its place is still as it was shown is for the caller to see.
    """
    if policy.expires_us is not None and policy.expires_us <= now_us:
        raise Conflict("nobody answered in time; propose it anew", field="expires_us")
    if policy.shown_digest != shown_digest:
        raise Conflict(
            "the approval names another digest than the policy has; look again",
            field="shown_digest",
            value=shown_digest,
            allowed=policy.shown_digest,
        )
    own = _proposed(policy, by)
    if own and not policy.lowers_risk:
        raise Conflict("the proposer can't approve his own policy", field="by", value=by.id)
    if any(by.id == one.by or by.name == one.name for one in policy.approvals):
        raise Conflict(
            f"{by.name} has approved it already; another person must, too", field="by", value=by.id
        )
    _check_senior(policy, by)
    return Approval(
        by=by.id, name=by.name, role=by.role, at_us=now_us, shown_digest=shown_digest, solo=own
    )


def next_step(policy: Policy) -> str:
    """What a policy waits for, in words; "" when nobody is asked."""
    if policy.state != "pending":
        return ""
    left = policy.approvals_needed - len(policy.approvals)
    if policy.approvals_needed == 1:
        solo = ", also the proposer" if policy.lowers_risk else " other than the proposer"
        return f"one approval by an operator, approver or admin{solo}"
    seniors = any(one.role in SENIOR for one in policy.approvals)
    if left == 1 and not seniors:
        return "one more approval, by an approver or admin"
    if left == 1:
        return "one more approval, by another person"
    return f"{left} approvals by different people, one of them an approver or admin"


def _proposed(policy: Policy, by: Principal) -> bool:
    person = policy.origin.kind == "person"
    return policy.proposed_by == by.id or (person and policy.origin.name == by.name)


def _check_senior(policy: Policy, by: Principal) -> None:
    """The last of two yeses must not leave high risk to operators alone."""
    last = len(policy.approvals) + 1 == policy.approvals_needed
    seniors = by.role in SENIOR or any(one.role in SENIOR for one in policy.approvals)
    if policy.approvals_needed > 1 and last and not seniors:
        raise Conflict(
            "the risk is high: at least one of the two must be an approver or admin",
            field="role",
            value=by.role,
            allowed="approver, admin",
        )
