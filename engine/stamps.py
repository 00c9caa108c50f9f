"""The stamp as a signal carries it: same fields, floor 0's type."""

from __future__ import annotations

from functools import lru_cache

from policies.runtime_config import Stamp
from signals.events import SeenStamp, SeenTrial


@lru_cache(maxsize=64)
def seen(stamp: Stamp) -> SeenStamp:
    """The stamp of a signal made under these settings."""
    trial = stamp.trial
    arm = None if trial is None else trial.arm
    return SeenStamp(
        target=stamp.target,
        replica=stamp.replica,
        incarnation=stamp.incarnation,
        version=stamp.version,
        digest=stamp.digest,
        trial=(
            None
            if trial is None or arm is None
            else SeenTrial(id=trial.id, block=trial.block, arm=arm)
        ),
        policies=stamp.policies,
    )
