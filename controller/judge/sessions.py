"""What one block of a session split showed: arms told apart by session, each session counted once.

The idea: a session has its arm for the whole trial, by a coin of its own. Counted in the block in
which it came first and in no other, the sessions of one block are tossed independently of those of
every other block, so that with no effect at all the difference of a block is as likely d as −d, and
independent of all differences before: what the judge's e-process asks for (``eprocess.py``).

A request of a session that is back in a later block has its arm too, and is left out there. In its
own block it counts as everywhere (``values.py``): by when it arrived, as it stood at the block's
end, pooled with all of its arm. A request without a session is a session by itself.

Why not the mean of each session: a session's length may itself be an effect, and requests are what
limits are declared for. Why not all requests of a block: see ``controller/trials.py``.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from controller.judge.values import ARMS, crossover_values
from controller.trials import Block, BlockValues, TrialPlan
from policies.runtime_config import Arm
from signals.features.model import RequestRow


def session_of(row: RequestRow) -> str:
    """Who was tossed for: the session, or the request itself."""
    return row.request_id if row.session_id is None else row.session_id


def session_values(
    plan: TrialPlan, block: Block, requests: Sequence[RequestRow], earlier: Set[str]
) -> dict[Arm, BlockValues] | str:
    """What each arm's new sessions showed, or in words why the block can't be counted.

    ``earlier``: sessions that came in an earlier block of the trial.
    """
    new = [row for row in requests if session_of(row) not in earlier]
    return crossover_values(plan, block, new, ())


def new_sessions(
    plan: TrialPlan, block: Block, requests: Sequence[RequestRow], earlier: Set[str]
) -> dict[str, int]:
    """How many sessions came first in this block, by arm."""
    found: dict[str, set[str]] = {arm: set() for arm in ARMS}
    for row in requests:
        if (row.trial, row.block) == (plan.id, block.index) and row.arm is not None:
            found[row.arm].add(session_of(row))
    return {arm: len(sessions - earlier) for arm, sessions in found.items()}
