"""The engine that the loop looks at: the first replica of its target."""

from __future__ import annotations

from controller.fleet import Fleet
from policies.runtime_config import RuntimeConfig

LOOK_S = 0.35
"""The loop waits so long for a replica's look; a step takes 0.3 s, and looks do not wait for it."""


class Watched:
    """The first replica as the loop looks at it: beside others it may keep nobody waiting."""

    def __init__(self, fleet: Fleet, target: str, *, wait_s: float = LOOK_S) -> None:
        self._fleet = fleet
        self._target = target
        self._wait_s = wait_s

    @property
    def seen(self) -> RuntimeConfig | None:
        """What it showed last, however long ago."""
        return self._fleet.first(self._target).seen

    def read(self, *, max_age_s: float) -> RuntimeConfig | None:
        """As ``Replica.read``."""
        alone = len(self._fleet.of(self._target)) == 1
        first = [self._fleet.first(self._target)]
        wait_s = None if alone else self._wait_s
        return self._fleet.look(first, max_age_s=max_age_s, wait_s=wait_s)[0]
