"""Which outcomes the learner may learn from: those of moves that the loop made by itself.

A person approves what he likes the look of, pins what he needs today, and an emergency acts when
things are bad already. Which moves those are depends on what nobody wrote down, so their outcomes
say as much about the choosing as about the setting. Judged moves of rules and of the plant model do
count: the trial's coin, not its proposer, decided what was in force when.

>>> may_learn(origin="learner", decided_by="loop", emergency=False, overridden=False)
''
>>> may_learn(origin="rule", decided_by="key_ann", emergency=False, overridden=False)
'key_ann decided it, not the loop'
"""

from __future__ import annotations

from controller.state import LOOP
from policies.policy import OriginKind, Policy


def may_learn(
    *, origin: OriginKind, decided_by: str | None, emergency: bool, overridden: bool
) -> str:
    """ "" when its outcome may be learned from, else why not.

    ``overridden``: a person's pin, force or hold was over its place while the outcome was measured.
    """
    if origin == "person":
        return "a person proposed it"
    if emergency:
        return "an emergency acts when things are bad already"
    if overridden:
        return "a person's override was over its place"
    if decided_by != LOOP:
        return f"{decided_by or 'nobody'} decided it, not the loop"
    return ""


def policy_may_teach(policy: Policy, *, overridden: bool) -> str:
    """The same of a policy: "" or why its outcome may not be learned from."""
    if policy.approvals:
        return f"{policy.approvals[0].by} approved it"
    return may_learn(
        origin=policy.origin.kind,
        decided_by=policy.decided_by,
        emergency=policy.emergency,
        overridden=overridden,
    )
