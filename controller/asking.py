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

BLOCKS_A_LOOK: Final = 2
"""Read of a trial that is to be confirmed, so that a look stays short; there is no hurry then."""


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


class AgedReader:
    """Reads the rows of one trial that is to be confirmed, some blocks a look. Not thread-safe.

    What it has read is kept until all of it is there; after a restart it is read again.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._policy = ""
        self._named: set[str] = set()
        self._read: dict[int, BlockRows] = {}

    def rows(
        self, confirming: Mapping[str, Trial], *, closed_us: int
    ) -> dict[str, dict[int, BlockRows]]:
        """By policy and block, the rows of one trial that is old enough, once all are read.

        Raises ``Unavailable``.
        """
        ripe = (name for name, trial in confirming.items() if ripe_us(trial) <= closed_us)
        policy = next(ripe, "")
        if policy != self._policy:
            self._policy, self._named, self._read = policy, set(), {}
        if not policy:
            return {}
        trial = confirming[policy]
        blocks = [block.index for unit in trial.units for block in unit.blocks]
        for block in blocks[len(self._read) : len(self._read) + BLOCKS_A_LOOK]:
            self._read[block] = self._block(trial, block)
        if len(self._read) < len(blocks):
            return {}
        judged = {block.index for unit in counted(trial) for block in unit.blocks}
        return {policy: {at: rows for at, rows in self._read.items() if at in judged}}

    def _block(self, trial: Trial, block: int) -> BlockRows:
        """Of every block in turn: a session that came first in one not counted counts nowhere."""
        requests = tuple(self._features.trial_requests(trial.plan.id, block=block))
        named = {session_of(row) for row in requests}
        split = trial.plan.design == "session_split"
        earlier = frozenset(named & self._named) if split else frozenset()
        self._named |= named
        rows = BlockRows(requests=requests, seconds=(), incomplete=False, earlier=earlier)
        return with_outcomes(self._features, trial.plan.id, block, rows)


def with_outcomes(features: Features, trial: str, block: int, rows: BlockRows) -> BlockRows:
    """A block's rows with what users said of its requests. Raises ``Unavailable``."""
    return replace(rows, outcomes=tuple(features.trial_outcomes(trial, block=block)))
