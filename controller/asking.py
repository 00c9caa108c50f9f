"""What the loop knows of users' feedback from the store, and reads of it from the features.

Nothing here decides: which metrics are in force, whose values count, which kept policies wait for
the feedback of their own trials, and the rows of these once every exposure is old enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from controller.judge.sessions import session_of
from controller.keys import influences
from controller.state import Asked, BlockRows
from controller.store.port import Tx
from controller.trial.ripening import counted, is_provisional, ripe_us
from controller.trials import Trial
from policies.policy import Policy
from signals.features.model import Features

MAX_CONFIRMING: Final = 16
"""Trials of provisional policies that are held in memory; others wait until one of them is done."""


def asked_of(tx: Tx, policies: Iterable[Policy], *, now_us: int) -> Asked:
    """As the store says now. The oldest provisional policies first."""
    waiting = sorted((p for p in policies if is_provisional(p)), key=lambda p: p.id)
    shares = influences(tx.keys(), now_us=now_us)
    return Asked(
        metrics={one.name: one.metric for one in tx.definitions()},
        capped=tuple(sorted(name for name, share in shares.items() if share < 1.0)),
        confirming={
            one.id: tx.trial(one.trial) for one in waiting[:MAX_CONFIRMING] if one.trial is not None
        },
    )


def aged_rows(
    features: Features, confirming: Mapping[str, Trial], *, closed_us: int
) -> dict[str, dict[int, BlockRows]]:
    """By policy and block, the rows of one trial that is old enough; the next look has the next.

    Raises ``Unavailable``.
    """
    for policy_id, trial in confirming.items():
        if ripe_us(trial) <= closed_us:
            return {policy_id: _rows_of(features, trial)}
    return {}


def with_outcomes(features: Features, trial: str, block: int, rows: BlockRows) -> BlockRows:
    """A block's rows with what users said of its requests. Raises ``Unavailable``."""
    return replace(rows, outcomes=tuple(features.trial_outcomes(trial, block=block)))


def _rows_of(features: Features, trial: Trial) -> dict[int, BlockRows]:
    """Of every block in turn: a session that came first in one not counted counts nowhere."""
    found: dict[int, BlockRows] = {}
    seen: set[str] = set()
    judged = {block.index for unit in counted(trial) for block in unit.blocks}
    for block in (block for unit in trial.units for block in unit.blocks):
        requests = tuple(features.trial_requests(trial.plan.id, block=block.index))
        named = {session_of(row) for row in requests}
        if block.index in judged:
            split = trial.plan.design == "session_split"
            earlier = frozenset(named & seen) if split else frozenset()
            rows = BlockRows(requests=requests, seconds=(), incomplete=False, earlier=earlier)
            found[block.index] = with_outcomes(features, trial.plan.id, block.index, rows)
        seen |= named
    return found
